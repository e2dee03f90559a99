// SPDX-License-Identifier: BSD-3-Clause
#include "side_stream.hpp"

#include "lockstep/core/error.hpp"

namespace lockstep::backend::cuda {

namespace {

/// Lets cuDNN queue its work on another stream than the compute stream while this object exists.
class DnnStreamScope {
 public:
  DnnStreamScope(const Target& target, cudaStream_t stream) : target_(target) {
    check_cudnn(cudnnSetStream(target.handle(), stream), "giving cuDNN the side stream");
  }
  ~DnnStreamScope() {
    if (cudnnSetStream(target_.handle(), target_.stream()) != CUDNN_STATUS_SUCCESS)
      core::warn_of_cleanup("giving cuDNN its stream failed");
  }
  DnnStreamScope(const DnnStreamScope&) = delete;
  DnnStreamScope& operator=(const DnnStreamScope&) = delete;

 private:
  const Target& target_;
};

}  // namespace

void SideStream::fork() const {
  check_cuda(cudaEventRecord(begin_.get(), target_.stream()), "the begin of a side stream's work");
  check_cuda(cudaStreamWaitEvent(stream_.get(), begin_.get()), "the begin of a side stream's work");
}

void SideStream::run(const std::function<void()>& work, const core::Event& done) const {
  {
    const DnnStreamScope scope(target_, stream_.get());
    work();
  }
  check_cuda(cudaEventRecord(done.get(), stream_.get()), "the end of a side stream's work");
}

void SideStream::join(const core::Event& done) const {
  check_cuda(cudaStreamWaitEvent(target_.stream(), done.get()), "waiting for a side stream");
}

}  // namespace lockstep::backend::cuda
