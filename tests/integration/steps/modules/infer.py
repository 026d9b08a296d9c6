"""Image to image by a neural network: every image goes through the ONNX model that lies beside this file. The config is
its name without `.onnx`; it takes and gives float [image, 1, y, x]."""

import pathlib

import ismrmrd
import numpy as np
import onnxruntime


def process(connection, config, header):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    file = pathlib.Path(__file__).with_name(f"{pathlib.PurePath(config).name}.onnx")
    session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    (model_input,) = session.get_inputs()
    for image in connection:
        if not isinstance(image, ismrmrd.Image):
            continue
        planes = image.data.reshape(-1, 1, *image.data.shape[-2:]).astype(np.float32)
        (out,) = session.run(None, {model_input.name: planes})
        image.data[:] = out.reshape(image.data.shape)
        connection.send_image(image)
