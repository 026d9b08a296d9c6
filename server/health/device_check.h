// The device check finds out by a little work whether a GPU works.
#pragma once

namespace echotrain::server {

/// Makes a context on the device and transforms a few numbers there and back; returns one of Canary's statuses. It is
/// for a process of its own, which CUDA's errors may leave unusable. It takes no more than `most_s` seconds: then
/// SIGALRM ends it.
int check_device(int device, unsigned most_s);

/// Returns the status for an error of CUDA's (cudaError_t), 0 for none. These errors say nothing about the device: that
/// others hold it (for one by the compute mode EXCLUSIVE_PROCESS); a lack of memory; MPS without a place; a limit of
/// the operating system; a driver that was exchanged while the server ran.
int device_status(int cuda_error);

}  // namespace echotrain::server
