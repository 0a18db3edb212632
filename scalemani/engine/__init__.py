"""How the method runs out of core: blocks, store, sweeps, cluster, kernels. Imports no stage."""
