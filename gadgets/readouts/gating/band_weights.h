// Coil weights that make a band of frequencies stand out.
#pragma once

#include <vector>

#include "gadgets/numerics/core/thread_pool.h"

namespace echotrain {

using Columns = std::vector<std::vector<double>>;  ///< [coil][moment]

/// Computes the weights w of the coils that maximise sum |w.band|^2 over sum |w.rest|^2; their sign is open. A
/// millionth of the mean energy of a coil is added to the rest in each direction, so that nothing is divided by
/// rounding errors. `band` must have some energy. Source: Nikulin, Nolte, Curio, "A novel method for reliable and fast
/// extraction of neuronal EEG/MEG oscillations on the basis of spatio-spectral decomposition", NeuroImage 55:1528,
/// 2011.
std::vector<double> band_weights(const numerics::ThreadPool& threads, const Columns& band, const Columns& rest);

/// [moment]: the weighted sum over the coils.
std::vector<double> weighted_sum(const Columns& columns, const std::vector<double>& weights);

}  // namespace echotrain
