// Whether a GPU works, found out by a little work on it.
#pragma once

namespace echotrain::server {

/// Makes a context on the device and transforms a few numbers there and back: one of Canary's statuses. For a process
/// of its own, which CUDA's errors may leave unusable. It takes no more than `most_s` seconds: then SIGALRM ends it.
int check_device(int device, unsigned most_s);

/// The status for an error of CUDA's (cudaError_t), 0 for none. A device that others hold, by the compute mode
/// EXCLUSIVE_PROCESS for one, and a lack of memory say nothing about the device.
int device_status(int cuda_error);

}  // namespace echotrain::server
