#include "nn/fused/norm_act.h"

#include <ATen/TracerMode.h>
#include <torch/csrc/autograd/custom_function.h>

#include <atomic>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "nn/fused/rows.h"

namespace sgtrain::nn::fused {
namespace {

using kernels::Acc;
using kernels::Bf16;
using kernels::Join;
using kernels::Rows;
using kernels::Unit;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

std::atomic<bool> enabled{true};

Unit unit_of(Act act) {
  return act == Act::kRelu ? Unit::kRelu : act == Act::kRelu6 ? Unit::kRelu6 : Unit::kIdentity;
}

/// An argument of Function::apply, which asks every plain tensor for its device.
using Optional = std::optional<at::Tensor>;
Optional given(const at::Tensor& t) {
  return t.defined() ? Optional(t) : std::nullopt;
}

/// A tensor on the same memory that autograd does not know as a view.
at::Tensor same_memory(const at::Tensor& t) {
  const at::AutoDispatchBelowADInplaceOrView guard;
  return at::alias(t);
}

/// Rows of channels: x itself, or a copy.
at::Tensor as_rows(const at::Tensor& x) {
  return pixel_stride(x) ? x : x.contiguous(at::MemoryFormat::ChannelsLast);
}

at::Tensor new_rows(const at::Tensor& like) {
  return at::empty(like.sizes(), like.options().requires_grad(false),
                   at::MemoryFormat::ChannelsLast);
}

std::vector<double> values(const at::Tensor& t) {
  const at::Tensor copy = t.detach().to(at::kDouble).contiguous();
  const double* data = copy.const_data_ptr<double>();
  return {data, data + copy.numel()};
}

at::Tensor vector_like(const double* data, const at::Tensor& like) {
  at::Tensor out = at::empty({like.numel()}, at::kDouble);
  std::copy(data, data + like.numel(), out.data_ptr<double>());
  return out.to(like.scalar_type());
}

void move_towards(at::Tensor& running, const std::vector<double>& batch, double momentum) {
  running.mul_(1.0 - momentum).add_(vector_like(batch.data(), running), momentum);
}

/// What one batch norm does to its input: y = a x + b, and what its backward needs.
/// Rows of `table` [4, padded C]: a, b, mean, 1 / deviation.
struct NormTable {
  at::Tensor table;
  template <class A>
  const A* row(int i) const {
    return static_cast<const A*>(table.const_data_ptr()) + i * table.size(1);
  }
};
enum TableRow { kScale, kShift, kMean, kInverse };

/// The numbers of a layer that operations need; tensors share memory with the layer's.
struct NormState {
  at::Tensor running_mean, running_var;
  double eps = 0, momentum = 0;
  bool training = false;

  explicit NormState(BatchNorm2d& norm)
      : running_mean(norm.running_mean),
        running_var(norm.running_var),
        eps(norm.eps),
        momentum(norm.momentum),
        training(norm.is_training()) {}

  /// @param moments of the batch; nullptr: the running statistics are used. Several processes that
  /// normalise over all their batches would merge their moments before this call, and their sums
  /// in backward.
  template <class A>
  NormTable make_table(const Moments* moments, const at::Tensor& weight, const at::Tensor& bias) {
    const std::vector<double> gamma = values(weight), beta = values(bias);
    const std::size_t channels = gamma.size();
    std::vector<double> mean, variance(channels);
    if (moments != nullptr) {
      mean = moments->mean;
      std::vector<double> unbiased(channels);
      for (std::size_t c = 0; c < channels; ++c) {
        variance[c] = moments->deviations[c] / moments->count;
        unbiased[c] = moments->deviations[c] / (moments->count - 1.0);
      }
      move_towards(running_mean, mean, momentum);
      move_towards(running_var, unbiased, momentum);
    } else {
      mean = values(running_mean);
      variance = values(running_var);
    }
    const std::int64_t width = padded(static_cast<std::int64_t>(channels));
    NormTable out{at::zeros({4, width}, std::is_same_v<A, double> ? at::kDouble : at::kFloat)};
    A* data = static_cast<A*>(out.table.data_ptr());
    for (std::size_t c = 0; c < channels; ++c) {
      const double inverse = 1.0 / std::sqrt(variance[c] + eps);
      const double a = gamma[c] * inverse;
      data[kScale * width + static_cast<std::int64_t>(c)] = static_cast<A>(a);
      data[kShift * width + static_cast<std::int64_t>(c)] = static_cast<A>(beta[c] - mean[c] * a);
      data[kMean * width + static_cast<std::int64_t>(c)] = static_cast<A>(mean[c]);
      data[kInverse * width + static_cast<std::int64_t>(c)] = static_cast<A>(inverse);
    }
    return out;
  }
};

/// Coefficients p, q, r of dx = p h + q x + r for y = norm(x), h = dy, as rows of a padded table.
/// sum_h = Σ h, sum_hx = Σ h (x - mean) over `count` rows (batch statistics), or no feedback
/// through the statistics (running ones).
template <class A>
class InputGradient {
 public:
  InputGradient(const NormTable& norm, std::int64_t channels, bool batch_statistics, double count,
                const double* sum_h, const double* sum_hx)
      : width_(padded(channels)), data_(static_cast<std::size_t>(3 * width_), A(0)) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double a = norm.row<A>(kScale)[c], mean = norm.row<A>(kMean)[c],
                   inverse = norm.row<A>(kInverse)[c];
      const double k = batch_statistics ? sum_hx[c] * inverse * inverse / count : 0.0;
      const double m = batch_statistics ? sum_h[c] / count : 0.0;
      data_[static_cast<std::size_t>(c)] = static_cast<A>(a);
      data_[static_cast<std::size_t>(width_ + c)] = static_cast<A>(-a * k);
      data_[static_cast<std::size_t>(2 * width_ + c)] = static_cast<A>(a * (mean * k - m));
    }
  }
  const A* row(int i) const { return data_.data() + i * width_; }

 private:
  std::int64_t width_;
  std::vector<A> data_;
};

/// Result tensor of a forward, and what the loops write besides.
struct Output {
  at::Tensor result, copy;
  Output(const at::Tensor& like, const Destination& destination) {
    if (destination.slice_only) {
      result = same_memory(destination.slice);
    } else {
      result = new_rows(like);
      copy = destination.slice;
    }
  }
};

// --------------------------------------------------------------- norm_act

class NormAct : public Function<NormAct> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Optional& added,
                            const at::Tensor& weight, const at::Tensor& bias, NormState state,
                            Act act, const Destination& destination) {
    const at::Tensor residual = added.value_or(at::Tensor());
    const Output out(x, destination);
    NormTable table;
    dispatch(x, [&](auto storage) {
      using T = decltype(storage);
      table = run<T>(x, residual, weight, bias, state, unit_of(act), out);
    });
    const bool mask_from_output = residual.defined() && act != Act::kIdentity;
    ctx->save_for_backward({x, weight, table.table, mask_from_output ? out.result : at::Tensor()});
    ctx->saved_data["act"] = static_cast<std::int64_t>(act);
    ctx->saved_data["training"] = state.training;
    ctx->saved_data["residual"] = residual.defined();
    return out.result;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    variable_list out(7);
    dispatch(saved[0], [&](auto storage) {
      using T = decltype(storage);
      differentiate<T>(ctx, saved, as_rows(gradients[0]), out);
    });
    return out;
  }

 private:
  template <class T>
  static NormTable run(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& weight,
                       const at::Tensor& bias, NormState& state, Unit act, const Output& out) {
    using A = Acc<T>;
    const std::int64_t channels = x.size(1);
    const Split split(x.numel() / channels, channels, x.element_size());
    const Rows<const T> in = rows<T>(x);
    NormTable table;
    if (state.training) {
      const Moments moments =
          batch_moments<T>(in, split, channels, [](std::int64_t, std::int64_t) {});
      table = state.make_table<A>(&moments, weight, bias);
    } else {
      table = state.make_table<A>(nullptr, weight, bias);
    }
    const Rows<const T> r = rows<T>(residual);
    const Rows<T> y = mutable_rows<T>(out.result), copy = mutable_rows<T>(out.copy);
    const Join how = residual.defined() ? Join::kInside : Join::kNone;
    split.each_block([&](std::int64_t, std::int64_t begin, std::int64_t end) {
      kernels::table<T>().forward(act, how, in.from(begin), table.row<A>(kScale),
                                  table.row<A>(kShift), r.from(begin), A(1), y.from(begin),
                                  copy.from(begin), end - begin, channels);
    });
    return table;
  }

  template <class T>
  static void differentiate(AutogradContext* ctx, const variable_list& saved,
                            const at::Tensor& gradient, variable_list& out) {
    using A = Acc<T>;
    const at::Tensor &x = saved[0], &weight = saved[1], &y = saved[3];
    const NormTable table{saved[2]};
    const Unit act = unit_of(static_cast<Act>(ctx->saved_data["act"].toInt()));
    const bool training = ctx->saved_data["training"].toBool(),
               with_residual = ctx->saved_data["residual"].toBool();
    const std::int64_t channels = x.size(1), width = padded(channels);
    const Split split(x.numel() / channels, channels, x.element_size());
    const Rows<const T> g = rows<T>(gradient), in = rows<T>(x), from = rows<T>(y);
    // Behind a residual sum the slope is needed twice: for the residual, and here.
    const at::Tensor slope = y.defined() ? new_rows(x) : at::Tensor();
    const Rows<T> h = mutable_rows<T>(slope);
    const A *a = table.row<A>(kScale), *b = table.row<A>(kShift), *mean = table.row<A>(kMean);
    const std::vector<double> sums =
        channel_sums<A>(split, channels, 2, [&](std::int64_t begin, std::int64_t end, A* block) {
          kernels::table<T>().backward_sums(act, g.from(begin), in.from(begin), from.from(begin), a,
                                            b, mean, h.from(begin), block, block + width,
                                            end - begin, channels);
        });
    const InputGradient<A> k(table, channels, training, static_cast<double>(split.rows),
                             sums.data(), sums.data() + channels);
    const at::Tensor dx = new_rows(x);
    const Rows<T> d = mutable_rows<T>(dx);
    const Rows<const T> source = slope.defined() ? rows<T>(slope) : g;
    const Unit rest = slope.defined() ? Unit::kIdentity : act;
    split.each_block([&](std::int64_t, std::int64_t begin, std::int64_t end) {
      kernels::table<T>().backward_apply(rest, source.from(begin), in.from(begin), a, b, k.row(0),
                                         k.row(1), k.row(2), d.from(begin), end - begin, channels);
    });
    out[0] = dx;
    if (with_residual) out[1] = slope.defined() ? slope : gradient;
    std::vector<double> d_weight(static_cast<std::size_t>(channels));
    for (std::int64_t c = 0; c < channels; ++c) {
      d_weight[static_cast<std::size_t>(c)] = sums[static_cast<std::size_t>(channels + c)] *
                                              static_cast<double>(table.row<A>(kInverse)[c]);
    }
    out[2] = vector_like(d_weight.data(), weight);
    out[3] = vector_like(sums.data(), weight);
  }
};

// --------------------------------------------------------------- branches

class Branches : public Function<Branches> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& t, const at::Tensor& point,
                            const at::Tensor& weight, const at::Tensor& bias,
                            const at::Tensor& post_weight, const at::Tensor& post_bias,
                            const Optional& factor_of_skip, const Optional& skipped,
                            NormState state, NormState post_state, Act act,
                            const Destination& destination) {
    const at::Tensor alpha = factor_of_skip.value_or(at::Tensor()),
                     skip = skipped.value_or(at::Tensor());
    const Output out(t, destination);
    const at::Tensor sum = same_memory(point);  // t's norm is added in place
    NormTable table, post;
    dispatch(t, [&](auto storage) {
      using T = decltype(storage);
      using A = Acc<T>;
      const std::int64_t channels = t.size(1);
      const Split split(t.numel() / channels, channels, t.element_size());
      const auto& loops = kernels::table<T>();
      const Rows<const T> in = rows<T>(t), s = rows<T>(sum), r = rows<T>(skip);
      const Rows<T> written = mutable_rows<T>(sum), y = mutable_rows<T>(out.result),
                    copy = mutable_rows<T>(out.copy);
      const Moments of_t = batch_moments<T>(in, split, channels, [](std::int64_t, std::int64_t) {});
      table = state.make_table<A>(&of_t, weight, bias);
      const Moments of_s =
          batch_moments<T>(s, split, channels, [&](std::int64_t begin, std::int64_t end) {
            loops.add(in.from(begin), table.row<A>(kScale), table.row<A>(kShift), s.from(begin),
                      written.from(begin), end - begin, channels);
          });
      post = post_state.make_table<A>(&of_s, post_weight, post_bias);
      const Join how = skip.defined() ? Join::kOutside : Join::kNone;
      const A factor = alpha.defined() ? alpha.item<A>() : A(0);
      split.each_block([&](std::int64_t, std::int64_t begin, std::int64_t end) {
        loops.forward(unit_of(act), how, s.from(begin), post.row<A>(kScale), post.row<A>(kShift),
                      r.from(begin), factor, y.from(begin), copy.from(begin), end - begin,
                      channels);
      });
    });
    ctx->save_for_backward({t, sum, weight, post_weight, alpha, skip, table.table, post.table});
    ctx->saved_data["act"] = static_cast<std::int64_t>(act);
    return out.result;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto saved = ctx->get_saved_variables();
    variable_list out(12);
    dispatch(saved[0], [&](auto storage) {
      using T = decltype(storage);
      differentiate<T>(unit_of(static_cast<Act>(ctx->saved_data["act"].toInt())), saved,
                       as_rows(gradients[0]), out);
    });
    return out;
  }

 private:
  template <class T>
  static void differentiate(Unit act, const variable_list& saved, const at::Tensor& gradient,
                            variable_list& out) {
    using A = Acc<T>;
    const at::Tensor &t = saved[0], &sum = saved[1], &weight = saved[2], &alpha = saved[4],
                     &skip = saved[5];
    const NormTable table{saved[6]}, post{saved[7]};
    const std::int64_t channels = t.size(1), width = padded(channels);
    const Split split(t.numel() / channels, channels, t.element_size());
    const auto& loops = kernels::table<T>();
    const Rows<const T> g = rows<T>(gradient), s = rows<T>(sum), in = rows<T>(t);
    const A *a = post.row<A>(kScale), *b = post.row<A>(kShift);
    const std::vector<double> sums =
        channel_sums<A>(split, channels, 4, [&](std::int64_t begin, std::int64_t end, A* block) {
          A* const four[4] = {block, block + width, block + 2 * width, block + 3 * width};
          loops.pair_sums(act, g.from(begin), s.from(begin), in.from(begin), a, b,
                          post.row<A>(kMean), table.row<A>(kMean), four, end - begin, channels);
        });
    const double* sum_h = sums.data();
    const double *sum_hs = sum_h + channels, *sum_ht = sum_hs + channels,
                 *sum_st = sum_ht + channels;
    const double count = static_cast<double>(split.rows);
    const InputGradient<A> k(post, channels, true, count, sum_h, sum_hs);
    // d_s has mean zero, as batch norm removes it, and Σ d_s (t - mean) follows from the sums.
    std::vector<double> zero(static_cast<std::size_t>(channels), 0.0),
        sum_dt(static_cast<std::size_t>(channels));
    std::vector<double> d_weight(static_cast<std::size_t>(channels)),
        d_post(static_cast<std::size_t>(channels));
    for (std::int64_t c = 0; c < channels; ++c) {
      const auto i = static_cast<std::size_t>(c);
      const double inverse = post.row<A>(kInverse)[c];
      sum_dt[i] = static_cast<double>(a[c]) *
                  (sum_ht[c] - sum_st[c] * sum_hs[c] * inverse * inverse / count);
      d_weight[i] = sum_dt[i] * static_cast<double>(table.row<A>(kInverse)[c]);
      d_post[i] = sum_hs[c] * inverse;
    }
    const InputGradient<A> kt(table, channels, true, count, zero.data(), sum_dt.data());
    const A* const coefficients[6] = {k.row(0),  k.row(1),  k.row(2),
                                      kt.row(0), kt.row(1), kt.row(2)};
    const at::Tensor d_sum = new_rows(t), d_t = new_rows(t);
    const Rows<T> ds = mutable_rows<T>(d_sum), dt = mutable_rows<T>(d_t);
    split.each_block([&](std::int64_t, std::int64_t begin, std::int64_t end) {
      loops.pair_apply(act, g.from(begin), s.from(begin), in.from(begin), a, b, coefficients,
                       ds.from(begin), dt.from(begin), end - begin, channels);
    });
    out[0] = d_t;
    out[1] = d_sum;
    out[2] = vector_like(d_weight.data(), weight);
    out[3] = at::zeros_like(weight);  // a shift before a batch norm has no effect
    out[4] = vector_like(d_post.data(), weight);
    out[5] = vector_like(sum_h, weight);
    if (!skip.defined()) return;
    std::vector<double> dots(static_cast<std::size_t>(split.parts), 0.0);
    const Rows<const T> r = rows<T>(skip);
    split.each_block([&](std::int64_t part, std::int64_t begin, std::int64_t end) {
      dots[static_cast<std::size_t>(part)] +=
          loops.dot(g.from(begin), r.from(begin), end - begin, channels);
    });
    double d_alpha = 0;
    for (const double dot : dots) d_alpha += dot;
    out[6] = at::full_like(alpha, d_alpha);
    out[7] = gradient * alpha.item<double>();
  }
};

// ------------------------------------------------------------------- join

class JoinSlices : public Function<JoinSlices> {
 public:
  static at::Tensor forward(AutogradContext* ctx, at::TensorList parts, const Destination& buffer) {
    std::vector<std::int64_t> channels;
    for (const at::Tensor& part : parts) channels.push_back(part.size(1));
    ctx->saved_data["channels"] = channels;
    return same_memory(buffer.slice);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    variable_list out;
    std::int64_t first = 0;
    for (const std::int64_t channels : ctx->saved_data["channels"].toIntVector()) {
      out.push_back(gradients[0].narrow(1, first, channels));
      first += channels;
    }
    out.emplace_back();
    return out;
  }
};

}  // namespace

void set_enabled(bool on) {
  enabled = on;
}

bool supports(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  // A tracer records ATen's operations only.
  return enabled && !at::tracer::impl::is_dispatch_enabled() && x.device().is_cpu() &&
         x.numel() > 0 && (type == at::kFloat || type == at::kDouble || type == at::kBFloat16) &&
         pixel_stride(x).has_value();
}
bool supports(Act act) {
  return act == Act::kIdentity || act == Act::kRelu || act == Act::kRelu6;
}

bool supports_pair(const at::Tensor& x, const at::Tensor& other) {
  return supports(other) && other.scalar_type() == x.scalar_type() && other.sizes() == x.sizes();
}

at::Tensor norm_act(const at::Tensor& x, const at::Tensor& residual, BatchNorm2d& norm, Act act,
                    const Destination& destination) {
  return NormAct::apply(x, given(residual), norm.weight, norm.bias, NormState(norm), act,
                        destination);
}

at::Tensor branches(const at::Tensor& t, const at::Tensor& point, BatchNorm2d& norm,
                    BatchNorm2d& post, Act act, const at::Tensor& alpha, const at::Tensor& skip,
                    const Destination& destination) {
  return Branches::apply(t, point, norm.weight, norm.bias, post.weight, post.bias, given(alpha),
                         given(skip), NormState(norm), NormState(post), act, destination);
}

at::Tensor join(const at::Tensor& buffer, const std::vector<at::Tensor>& parts) {
  return JoinSlices::apply(at::TensorList(parts), Destination{.slice = buffer});
}

}  // namespace sgtrain::nn::fused
