"""Tokens to their experts and back, over eight chips in two rows of four, against loops over tokens."""

from __future__ import annotations

import pytest
import torch

import ttnn

BATCH, LENGTH, WIDTH, EXPERTS, CHOSEN, CHIPS = 2, 3, 32, 8, 2, 4


@pytest.fixture(scope="module")
def mesh():
    patch = pytest.MonkeyPatch()
    patch.setenv("TESSERA_BOARD", "t3000")
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    device = ttnn.open_mesh_device(ttnn.MeshShape(1, CHIPS))
    yield device
    ttnn.close_mesh_device(device)
    ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)
    patch.undo()


def owner(expert):
    """Experts are dealt to chips in turn, so a chip's own are not neighbours."""
    return expert % CHIPS


@pytest.fixture(scope="module")
def given():
    source = torch.Generator().manual_seed(0)
    tokens = torch.randn(CHIPS * BATCH, 1, LENGTH, WIDTH, generator=source).bfloat16()
    choices = torch.stack([torch.randperm(EXPERTS, generator=source)[:CHOSEN] for _ in range(CHIPS * BATCH * LENGTH)])
    mapping = torch.zeros(1, 1, EXPERTS, CHIPS, dtype=torch.int32)
    for expert in range(EXPERTS):
        mapping[..., expert, owner(expert)] = 1
    return tokens, choices.reshape(CHIPS * BATCH, 1, LENGTH, CHOSEN).to(torch.int32), mapping


def put(mesh, values, dtype, *, dim=None):
    mapper = ttnn.ReplicateTensorToMesh(mesh) if dim is None else ttnn.ShardTensorToMesh(mesh, dim=dim)
    return ttnn.from_torch(values, dtype=dtype, device=mesh, mesh_mapper=mapper)


def parts(tensor):
    return [ttnn.to_torch(t) for t in ttnn.get_device_tensors(tensor)]


@pytest.mark.parametrize("dim", [1, 2])
def test_there_and_back(mesh, given, dim):
    tokens, choices, mapping = given
    sparse, metadata = ttnn.all_to_all_dispatch(
        put(mesh, tokens, ttnn.bfloat16, dim=0),
        put(mesh, choices, ttnn.uint16, dim=0),
        put(mesh, mapping, ttnn.uint16),
        cluster_axis=1,
        output_concat_dim=dim,
    )

    def ordered(values):
        dealt = values.reshape(CHIPS, 1, BATCH, LENGTH, -1)
        return torch.cat(list(dealt), dim)

    everyone, chosen = ordered(tokens), ordered(choices)
    for chip, (here, known) in enumerate(zip(parts(sparse), parts(metadata))):
        assert torch.equal(known.to(torch.int32), chosen)
        for b in range(everyone.shape[1]):
            for s in range(everyone.shape[2]):
                wanted = any(owner(int(e)) == chip for e in chosen[0, b, s])
                assert torch.equal(here[0, b, s], everyone[0, b, s] if wanted else torch.zeros(WIDTH).bfloat16())
    # Every expert multiplies by its number; what comes back says which expert it was.
    local = torch.stack([torch.arange(chip, EXPERTS, CHIPS) for chip in range(CHIPS)])
    worked = torch.cat([here * local[chip][:, None, None, None].bfloat16() for chip, here in enumerate(parts(sparse))])
    back = ttnn.all_to_all_combine(
        put(mesh, worked, ttnn.bfloat16, dim=0), metadata, put(mesh, mapping, ttnn.uint16), cluster_axis=1, output_shard_dim=dim
    )
    for chip, here in enumerate(parts(back)):
        assert list(here.shape) == [CHOSEN, BATCH, LENGTH, WIDTH]
        own = tokens[chip * BATCH : (chip + 1) * BATCH, 0]
        factor = choices[chip * BATCH : (chip + 1) * BATCH, 0].permute(2, 0, 1)[..., None].bfloat16()
        assert torch.equal(here, own[None] * factor)


def test_sums_come_back_once(mesh, given):
    tokens, choices, mapping = given
    sparse, metadata = ttnn.all_to_all_dispatch(
        put(mesh, tokens, ttnn.bfloat16, dim=0), put(mesh, choices, ttnn.uint16, dim=0), put(mesh, mapping, ttnn.uint16), cluster_axis=1
    )
    back = ttnn.all_to_all_combine(sparse, metadata, put(mesh, mapping, ttnn.uint16), cluster_axis=1, local_reduce=True)
    for chip, here in enumerate(parts(back)):
        own = tokens[chip * BATCH : (chip + 1) * BATCH, 0]
        for b in range(BATCH):
            for s in range(LENGTH):
                chips = [owner(int(e)) for e in choices[chip * BATCH + b, 0, s]]
                for k, place in enumerate(chips):
                    first = place not in chips[:k]
                    assert torch.equal(here[k, b, s], own[b, s] if first else torch.zeros(WIDTH).bfloat16())


def test_weights_of_a_chip(mesh, given):
    _, choices, mapping = given
    tokens = BATCH * LENGTH * CHIPS
    weights = torch.rand(1, CHIPS * BATCH, LENGTH, EXPERTS, generator=torch.Generator().manual_seed(1)).bfloat16()
    chosen = choices.reshape(1, CHIPS * BATCH, LENGTH, CHOSEN)
    local, used = ttnn.moe_expert_token_remap(
        put(mesh, weights, ttnn.bfloat16), put(mesh, mapping, ttnn.uint16), put(mesh, chosen, ttnn.uint16), reduction_size=5
    )
    for chip, (here, flags) in enumerate(zip(parts(local), parts(used))):
        picked = torch.stack([(chosen == expert).any(-1) for expert in range(chip, EXPERTS, CHIPS)], -1)
        assert torch.equal(here, torch.where(picked, weights[..., chip::CHIPS], torch.zeros(()).bfloat16()))
        rows = picked.reshape(tokens, -1)
        assert flags[0, 0].tolist() == [rows[i : i + 5].any(0).int().tolist() for i in range(0, tokens, 5)]


def test_refusals(mesh, given):
    tokens, choices, mapping = given
    with pytest.raises(RuntimeError, match="output_concat_dim=3"):
        ttnn.all_to_all_dispatch(
            put(mesh, tokens, ttnn.bfloat16, dim=0),
            put(mesh, choices, ttnn.uint16, dim=0),
            put(mesh, mapping, ttnn.uint16),
            output_concat_dim=3,
        )
    one = torch.zeros(1, 1, LENGTH, WIDTH).bfloat16()
    with pytest.raises(RuntimeError, match="Invalid shape at index 1"):
        ttnn.all_to_all_combine(
            put(mesh, one, ttnn.bfloat16), put(mesh, choices[:1], ttnn.uint16), put(mesh, mapping, ttnn.uint16), cluster_axis=1
        )
