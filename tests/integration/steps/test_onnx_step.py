"""Inference by ONNX Runtime in a Python step, with a model that the test makes."""

import shutil

import numpy as np
import pytest
import steps
import wire

onnx = pytest.importorskip("onnx", reason="the ONNX example needs the package onnx")
pytest.importorskip("onnxruntime", reason="the ONNX example needs the package onnxruntime")

KERNEL = np.array([[1, 2, 1], [2, 4, 2], [1, 2, 1]], np.float32) / 16


def write_model(path):
    """A convolution and a rectifier, zeros around the image."""
    shape = ["images", 1, "y", "x"]
    values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("pixels", "out")]
    nodes = [onnx.helper.make_node("Conv", ["pixels", "kernel"], ["smooth"], pads=[1, 1, 1, 1]),
             onnx.helper.make_node("Relu", ["smooth"], ["out"])]  # fmt: skip
    kernel = onnx.numpy_helper.from_array(KERNEL.reshape(1, 1, 3, 3), "kernel")
    graph = onnx.helper.make_graph(nodes, "smooth", values[:1], values[1:], [kernel])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, str(path))


def smoothed(pixels):
    """The same in float64, without ONNX."""
    y, x = pixels.shape[-2:]
    padded = np.pad(pixels.astype(np.float64), [(0, 0)] * (pixels.ndim - 2) + [(1, 1), (1, 1)])
    out = sum(KERNEL[i, j] * padded[..., i : i + y, j : j + x] for i in range(3) for j in range(3))
    return np.maximum(out, 0)


def test_a_network_changes_images(tmp_path):
    modules = tmp_path / "modules"
    modules.mkdir()
    shutil.copy(steps.MODULES / "infer.py", modules)
    write_model(modules / "smooth.onnx")
    server = steps.start_server(tmp_path, modules=modules)
    random = np.random.default_rng(1)
    sent = [random.normal(size=(2, 3, 20, 31)).astype(np.float32) for _ in range(3)]
    step = steps.python("infer", config="smooth")
    images = [steps.image(each, index=i + 1) for i, each in enumerate(sent)]
    reply = wire.exchange(server.address, [steps.pipeline(step), steps.header(), *images, wire.close()])
    assert not reply.errors() and len(reply.images) == 3, reply
    for image, pixels in zip(reply.images, sent):
        np.testing.assert_allclose(image.pixels, smoothed(pixels), atol=1e-5)
    assert server.stop() == 0
