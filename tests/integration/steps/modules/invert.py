"""Image to image: turns bright to dark."""

import constants
import ismrmrd


def process(connection, config, header):
    connection.send_logging(constants.MRD_LOGGING_INFO, f"inverting, config {config}")
    for image in connection:
        if isinstance(image, ismrmrd.Image):
            image.data[:] = image.data.max() - image.data
            image.image_series_index += 98
            meta = ismrmrd.Meta.deserialize(image.attribute_string)
            meta["ImageProcessingHistory"] = ["PYTHON", "INVERT"]
            image.attribute_string = meta.serialize()
            connection.send_image(image)
