"""Random features: what an integer stands for. Below the algorithm that draws them and the models that keep them."""
