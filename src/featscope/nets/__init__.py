"""Every network: functional cores with closed-form gradients, and the modules made of them."""
