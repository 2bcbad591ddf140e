"""A small random model of today's kind, from `transformers`, under this course's names."""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import Module
from transformers import LlamaConfig, LlamaForCausalLM

Weights = dict[str, Tensor]


def llama(seed: int = 0) -> LlamaForCausalLM:
    """Two blocks of four heads, of which two share keys and values.

    All weights are random, those of its norms, too.
    """
    config = LlamaConfig(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2)
    config.num_attention_heads = 4
    config.num_key_value_heads = 2
    config.head_dim = 8
    config.initializer_range = 0.3
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config).eval().requires_grad_(False)
        for weight in model.parameters():
            if weight.ndim == 1:
                weight += 0.3 * torch.randn(weight.shape)
    return model


def blocks(model: LlamaForCausalLM) -> list[Weights]:
    """The weights of each block, by name.

    Q [head, d_model, d_head], K and V with fewer heads, O [head, d_head, d_model], …
    """
    d_head = model.config.hidden_size // model.config.num_attention_heads
    found = []
    for block in model.model.layers:
        attn, mlp = block.self_attn, block.mlp
        read = {"Q": attn.q_proj, "K": attn.k_proj, "V": attn.v_proj}
        W = {
            name: part.weight.T.unflatten(1, (-1, d_head)).transpose(0, 1)
            for name, part in read.items()
        }
        W["O"] = attn.o_proj.weight.T.unflatten(0, (-1, d_head))
        W["b_K"] = torch.zeros(d_head)
        W["gate"] = mlp.gate_proj.weight.T
        W["up"] = mlp.up_proj.weight.T
        W["down"] = mlp.down_proj.weight.T
        W["norm 1"] = block.input_layernorm.weight
        W["norm 2"] = block.post_attention_layernorm.weight
        found.append(W)
    return found


def inside(
    model: LlamaForCausalLM, tokens: Int[Tensor, "1 pos"]
) -> dict[str, tuple[Tensor, Tensor]]:
    """What goes into each part of the first block, and what comes out of it, [pos, d_model]."""
    seen: dict[str, tuple[Tensor, Tensor]] = {}
    block = model.model.layers[0]
    parts = {"norm": block.input_layernorm, "attention": block.self_attn, "MLP": block.mlp}

    def keep(name: str) -> Callable[..., None]:
        def hook(part: Module, given: tuple, named: dict, out: Tensor | tuple) -> None:
            x = given[0] if given else named["hidden_states"]  # [1, pos, d_model]
            seen[name] = (x[0], (out if isinstance(out, Tensor) else out[0])[0])

        return hook

    handles = [
        part.register_forward_hook(keep(name), with_kwargs=True) for name, part in parts.items()
    ]
    model(tokens)
    for handle in handles:
        handle.remove()
    return seen
