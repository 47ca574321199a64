"""The pieces of comparison, as programs find them in `ttnn.decorators`."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.observers.samples import tensor

import ttnn
from ttnn import decorators


def test_what_is_in_a_value(device: Any) -> None:
    x, host, plain = tensor(device, 32, 32), ttnn.zeros([2]), torch.zeros(3)
    value = [x, {"a": (host, plain)}, 3, device]
    assert [t is w for t, w in zip(decorators.get_ttnn_tensors(value), (x, host))] == [True, True]
    assert len(decorators.get_all_tensors(value)) == 3 and decorators.get_devices(value) == {device}
    assert decorators.get_tensors(value, torch.Tensor)[0] is plain
    assert [t is x for t in decorators.get_inplace_output_tensors({"output_tensor": x, "other": host})] == [True]
    assert decorators.get_output_tensor_ids([x, host]) == [x.tensor_id, host.tensor_id]


def test_numbers(device: Any) -> None:
    plain = torch.zeros(3)
    decorators.set_tensor_id(plain)
    first = plain.tensor_id
    decorators.set_tensor_id(plain)
    assert plain.tensor_id == first
    decorators.set_tensor_id(plain, force=True)
    assert plain.tensor_id > first
    assert decorators.set_output_tensor_id_decorator(lambda: torch.ones(1))().tensor_id > plain.tensor_id
    record = decorators.get_tensor_report_record(tensor(device, 32, 64))
    assert record["shape"] == "Shape([32, 64])" and record["dtype"] == "DataType.BFLOAT16" and record["buffer_type"] == 0


def test_comparing(device: Any) -> None:
    x = tensor(device, 32, 64)
    golden = ttnn.to_torch(x)
    assert decorators.should_compare_tensor_outputs([golden], [x]) and not decorators.should_compare_tensor_outputs(1, 2)
    assert decorators.should_compare_scalar_outputs(1, 2.0) and not decorators.should_compare_scalar_outputs(golden, x)
    (record,) = decorators.compare_tensors_using_pcc("ttnn.x", [golden], [x], 0.99, "local", True)
    assert record["matches"] and record["tensor_id"] == x.tensor_id and record["desired_pcc"] == 0.99
    with pytest.raises(RuntimeError, match="Comparing output tensor 0 against CPU local failed"):
        decorators.compare_tensors_using_pcc("ttnn.x", [torch.randn(32, 64)], [x], 0.99, "local", True)
    assert decorators.compare_scalar_outputs("ttnn.x", 1.0, 1.0, 0.99, "local", False)
    assert not decorators.compare_scalar_outputs("ttnn.x", 1.0, 2.0, 0.99, "local", False)
    assert list(decorators.to_torch_for_comparison(x, torch.zeros(1, 32, 64)).shape) == [1, 32, 64]


def test_golden_arguments(device: Any) -> None:
    x = tensor(device, 32, 64)
    (first,), words = decorators.default_preprocess_golden_function_inputs((x,), {"other": [x]})
    assert isinstance(first, torch.Tensor) and isinstance(words["other"][0], torch.Tensor)
    better = torch.ones(32, 64)
    decorators.postprocess_global_golden_function_outputs([x], [better])
    (found,), _ = decorators.preprocess_global_golden_function_inputs((x,), {})
    assert found is better
    decorators.refresh_or_invalidate_global_goldens([x], None)
    (found,), _ = decorators.preprocess_global_golden_function_inputs((x,), {})
    assert torch.equal(found, ttnn.to_torch(x))
