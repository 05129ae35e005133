"""Muon (Jordan, 2024) for matrices in float32, AdamW for the rest: half the steps of AdamW alone on small models."""
import torch


def orthogonal(g, steps=5):
    x = g / (g.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    for _ in range(steps):
        a = x @ x.mT
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * (a @ a)) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.95):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                shapes.setdefault(p.shape, []).append(p)
            for shape, same in shapes.items():
                updates = []
                for p in same:
                    state = self.state[p]
                    if not state:
                        state["momentum"] = torch.zeros_like(p)
                    m = state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                    updates.append(p.grad.lerp(m, group["momentum"]))
                scale = max(1, shape[0] / shape[1]) ** 0.5
                for p, update in zip(same, orthogonal(torch.stack(updates))):
                    p.add_(update, alpha=-group["lr"] * scale)


def optimizers(model):
    """Muon for the layers' matrices, AdamW for the embedding and, faster, for norms: attention's sharpness is theirs."""
    named = list(model.named_parameters())
    matrices = [p for name, p in named if p.ndim == 2 and "embed" not in name]
    embedding = [p for name, p in named if "embed" in name]
    norms = [p for _, p in named if p.ndim == 1]
    return [Muon(matrices, lr=0.02), torch.optim.AdamW([{"params": embedding, "lr": 0.004}, {"params": norms, "lr": 0.012}],
                                                       betas=(0.9, 0.98), weight_decay=0.0)]
