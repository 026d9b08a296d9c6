// Whether a GPU works, found out by a little work on it.
#pragma once

namespace echotrain::server {

/// Makes a context on the device and transforms a few numbers there and back: one of Canary's statuses. For a process
/// of its own, which CUDA's errors may leave unusable. It takes no more than `most_s` seconds: then SIGALRM ends it.
int check_device(int device, unsigned most_s);

/// The status for an error of CUDA's (cudaError_t), 0 for none. These say nothing about the device: that others hold
/// it, by the compute mode EXCLUSIVE_PROCESS for one; a lack of memory; MPS without a place; a limit of the operating
/// system; a driver that was exchanged while the server ran.
int device_status(int cuda_error);

}  // namespace echotrain::server
