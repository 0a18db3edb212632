"""The paper's experiment: data sets with known parameters, pictures, and a page that opens offline."""
