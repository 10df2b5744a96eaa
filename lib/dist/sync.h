// Ranks that hold the same: equal weights at the start, equal recipes, and the check of both.
#pragma once

#include <span>
#include <string>

#include "dist/communicator.h"
#include "tensor/module.h"

namespace sgtrain::dist {

/// Gives every rank rank 0's parameters and buffers, after checking that names, shapes and dtypes
/// agree; throws core::Error naming the first tensor that differs and the rank. Collective.
void broadcast_state(Communicator& comm, std::span<const tensor::TensorRef> state);

/// Throws core::Error on every rank when `text` (for example the resolved recipe) differs between
/// ranks, naming the first line that differs. Collective.
void check_equal(Communicator& comm, const std::string& what, const std::string& text);

/// The signal that asked any rank to end (core/signals.h), 0 when none; from then on every rank
/// knows of it. Collective.
int agreed_stop_signal(Communicator& comm);

/// Debug check: throws core::Error naming the first tensor whose bytes differ between ranks.
void check_in_sync(Communicator& comm, const tensor::StateDict& state);
void check_in_sync(Communicator& comm, std::span<const tensor::TensorRef> state);

}  // namespace sgtrain::dist
