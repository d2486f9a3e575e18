// The operator's two kernels in CUDA C++, for logits in fp32, fp16 or bf16. One block takes a row.

#include <ATen/Dispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cfloat>

namespace {

constexpr int THREADS = 512;  // a power of two, as `sum_of_block` halves them

// `total` exponentials of x - top were added up, where `top` is the largest x so far: none overflows.
struct Sum {
  float top = -FLT_MAX;  // not -infinity, which less itself is no number
  float total = 0.0f;

  __device__ void add(float x) {
    if (x > top) {
      total = total * expf(top - x) + 1.0f;
      top = x;
    } else {
      total += expf(x - top);
    }
  }

  __device__ void add(const Sum& other) {
    const float larger = fmaxf(top, other.top);
    total = total * expf(top - larger) + other.total * expf(other.top - larger);
    top = larger;
  }
};

// The sum over all threads of the block; the first thread has it.
__device__ Sum sum_of_block(Sum own) {
  __shared__ float tops[THREADS], totals[THREADS];
  for (int half = THREADS / 2; half > 0; half /= 2) {
    tops[threadIdx.x] = own.top;
    totals[threadIdx.x] = own.total;
    __syncthreads();
    if (threadIdx.x < half) {
      Sum other;
      other.top = tops[threadIdx.x + half];
      other.total = totals[threadIdx.x + half];
      own.add(other);
    }
    __syncthreads();
  }
  return own;
}

// One row's loss and logarithm of the sum of exponentials, read once.
template <typename Logit>
__global__ void loss_kernel(const Logit* __restrict__ logits, const int64_t* __restrict__ targets,
                            float* __restrict__ losses, float* __restrict__ sums, int64_t columns) {
  const int64_t row = blockIdx.x;
  logits += row * columns;
  Sum sum;
#pragma unroll 8
  for (int64_t column = threadIdx.x; column < columns; column += THREADS) {
    sum.add(static_cast<float>(logits[column]));
  }
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) {
    const int64_t target = targets[row];
    CUDA_KERNEL_ASSERT(target >= 0 && target < columns);
    const float logarithm = sum.top + logf(sum.total);
    losses[row] = logarithm - static_cast<float>(logits[target]);
    sums[row] = logarithm;
  }
}

// The gradient of a row: probabilities, less one at the target.
template <typename Logit>
__global__ void gradient_kernel(const float* __restrict__ gradient,
                                const Logit* __restrict__ logits,
                                const int64_t* __restrict__ targets,
                                const float* __restrict__ sums, Logit* __restrict__ gradients,
                                int64_t columns) {
  const int64_t row = blockIdx.x;
  const int64_t target = targets[row];
  const float sum = sums[row], scale = gradient[row];
  logits += row * columns;
  gradients += row * columns;
#pragma unroll 8
  for (int64_t column = threadIdx.x; column < columns; column += THREADS) {
    const float probability = expf(static_cast<float>(logits[column]) - sum);
    const float slope = (probability - (column == target ? 1.0f : 0.0f)) * scale;
    gradients[column] = static_cast<Logit>(slope);
  }
}

void check(const at::Tensor& logits, const at::Tensor& targets) {
  TORCH_CHECK(logits.dim() == 2, "logits must be [N, V], and have ", logits.dim(), " dimensions");
  TORCH_CHECK(logits.is_contiguous(), "logits must be contiguous: call .contiguous() first");
  TORCH_CHECK(targets.dim() == 1 && targets.size(0) == logits.size(0),
              "targets must be [N], one for each row of the logits");
  TORCH_CHECK(targets.scalar_type() == at::kLong && targets.is_contiguous(),
              "targets must be int64 and contiguous");
  TORCH_CHECK(targets.device() == logits.device(), "targets must be on the device of the logits");
}

// The gradient of a mean is one number that is expanded to all rows, so it is made contiguous here.
at::Tensor of_rows(const at::Tensor& values, const at::Tensor& logits, const char* name) {
  TORCH_CHECK(values.dim() == 1 && values.size(0) == logits.size(0) &&
                  values.scalar_type() == at::kFloat && values.device() == logits.device(),
              name, " must be fp32 [N], on the device of the logits");
  return values.contiguous();
}

#define FOR_LOGITS_OF(TYPE, ...)                                    \
  AT_DISPATCH_SWITCH(TYPE, "wordmodel_cuda",                        \
                     AT_DISPATCH_CASE(at::kFloat, __VA_ARGS__)      \
                     AT_DISPATCH_CASE(at::kHalf, __VA_ARGS__)       \
                     AT_DISPATCH_CASE(at::kBFloat16, __VA_ARGS__))

std::tuple<at::Tensor, at::Tensor> loss_of_rows(const at::Tensor& logits,
                                                const at::Tensor& targets) {
  check(logits, targets);
  const c10::cuda::CUDAGuard guard(logits.device());
  const at::Tensor losses = at::empty({logits.size(0)}, logits.options().dtype(at::kFloat));
  const at::Tensor sums = at::empty_like(losses);
  if (logits.size(0) == 0) return {losses, sums};
  FOR_LOGITS_OF(logits.scalar_type(), [&] {
    loss_kernel<<<logits.size(0), THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
        logits.const_data_ptr<scalar_t>(), targets.const_data_ptr<int64_t>(),
        losses.mutable_data_ptr<float>(), sums.mutable_data_ptr<float>(), logits.size(1));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return {losses, sums};
}

at::Tensor gradient_of_logits(const at::Tensor& gradient, const at::Tensor& logits,
                              const at::Tensor& targets, const at::Tensor& sums) {
  check(logits, targets);
  const c10::cuda::CUDAGuard guard(logits.device());
  const at::Tensor of_losses = of_rows(gradient, logits, "the gradient of the losses");
  const at::Tensor of_sums = of_rows(sums, logits, "sums");
  const at::Tensor gradients = at::empty_like(logits);
  if (logits.size(0) == 0) return gradients;
  FOR_LOGITS_OF(logits.scalar_type(), [&] {
    gradient_kernel<<<logits.size(0), THREADS, 0, c10::cuda::getCurrentCUDAStream()>>>(
        of_losses.const_data_ptr<float>(), logits.const_data_ptr<scalar_t>(),
        targets.const_data_ptr<int64_t>(), of_sums.const_data_ptr<float>(),
        gradients.mutable_data_ptr<scalar_t>(), logits.size(1));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  });
  return gradients;
}

}  // namespace

// Shapes and derivative are told in Python, by `describe` in cross_entropy.py.
TORCH_LIBRARY(wordmodel_cuda, m) {
  m.def("cross_entropy(Tensor logits, Tensor targets) -> (Tensor, Tensor)");
  m.def(
      "cross_entropy_gradient(Tensor gradient, Tensor logits, Tensor targets, Tensor sums)"
      " -> Tensor");
}

TORCH_LIBRARY_IMPL(wordmodel_cuda, CUDA, m) {
  m.impl("cross_entropy", &loss_of_rows);
  m.impl("cross_entropy_gradient", &gradient_of_logits);
}
