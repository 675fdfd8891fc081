"""Random features: what an integer stands for. Below both the algorithm that draws them and the models that keep them."""
