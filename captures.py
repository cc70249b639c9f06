"""What an update does to the weights, for studies that ask for captures of their first updates."""


def scalars(model):
    """Return {name: list of floats} of the per-layer scalars, which are the weights of one dimension."""
    return {name: weight.tolist() for name, weight in model.named_parameters() if weight.ndim == 1}


def capture(model, before):
    """Return what an update did: gradient, sign and both values of every per-layer scalar, norms of other gradients.

    before: `scalars` of the model before the update, whose gradients it still holds.
    """
    after, gradients = scalars(model), {name: weight.grad for name, weight in model.named_parameters()}
    found = {name: [{"gradient": gradient, "sign": (gradient > 0) - (gradient < 0), "before": old, "after": new}
                    for gradient, old, new in zip(gradients[name].tolist(), before[name], after[name], strict=True)]
             for name in after}
    norms = {name: gradient.double().norm().item() for name, gradient in gradients.items() if name not in after}
    return {"scalars": found, "gradient_norms": norms}
