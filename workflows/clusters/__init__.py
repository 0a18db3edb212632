"""What the three cluster workflows share: fits on Dask's active client, certificates, programs on other machines."""
