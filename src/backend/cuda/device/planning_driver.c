// SPDX-License-Identifier: BSD-3-Clause
// Stub of the CUDA driver library for machines without a driver, so that cuDNN can plan for a
// target GPU that is not present. cuDNN loads runtime-compiled engines through the driver as soon
// as they are compiled; without a driver it treats them as unsupported. In this stub, loading and
// unloading a library and getting a kernel from it succeed, and the version and the error strings
// can be queried. All other functions return "no device", so nothing can be executed.
//
// Built as a shared object with SONAME libcuda.so.1; device.hpp describes how it is opened.

#include <stdint.h>
#include <string.h>

enum { success = 0, no_device = 100 };  // CUDA_SUCCESS, CUDA_ERROR_NO_DEVICE

const int lockstep_planning_driver = 1;  // distinguishes the stub from a real driver

static int nothing_is_here;  // target of all library and kernel handles

static int refuse(void) { return no_device; }

// cuDNN looks up these functions by name before it plans. All of them return "no device".
int cuCtxGetCurrent(void) __attribute__((alias("refuse")));
int cuCtxGetDevice(void) __attribute__((alias("refuse")));
int cuCtxGetLimit(void) __attribute__((alias("refuse")));
int cuCtxPopCurrent(void) __attribute__((alias("refuse")));
int cuCtxPopCurrent_v2(void) __attribute__((alias("refuse")));
int cuCtxPushCurrent(void) __attribute__((alias("refuse")));
int cuCtxPushCurrent_v2(void) __attribute__((alias("refuse")));
int cuCtxSetCurrent(void) __attribute__((alias("refuse")));
int cuCtxSynchronize(void) __attribute__((alias("refuse")));
int cuDeviceGet(void) __attribute__((alias("refuse")));
int cuDeviceGetAttribute(void) __attribute__((alias("refuse")));
int cuDeviceGetCount(void) __attribute__((alias("refuse")));
int cuDeviceGetName(void) __attribute__((alias("refuse")));
int cuDevicePrimaryCtxRetain(void) __attribute__((alias("refuse")));
int cuDevicePrimaryCtxRelease(void) __attribute__((alias("refuse")));
int cuDevicePrimaryCtxRelease_v2(void) __attribute__((alias("refuse")));
int cuFuncGetAttribute(void) __attribute__((alias("refuse")));
int cuFuncSetAttribute(void) __attribute__((alias("refuse")));
int cuKernelGetAttribute(void) __attribute__((alias("refuse")));
int cuKernelGetFunction(void) __attribute__((alias("refuse")));
int cuKernelSetAttribute(void) __attribute__((alias("refuse")));
int cuLaunchCooperativeKernel(void) __attribute__((alias("refuse")));
int cuLaunchKernel(void) __attribute__((alias("refuse")));
int cuLaunchKernelEx(void) __attribute__((alias("refuse")));
int cuLibraryGetGlobal(void) __attribute__((alias("refuse")));
int cuLibraryGetKernelCount(void) __attribute__((alias("refuse")));
int cuLibraryGetModule(void) __attribute__((alias("refuse")));
int cuLibraryLoadFromFile(void) __attribute__((alias("refuse")));
int cuLinkAddData(void) __attribute__((alias("refuse")));
int cuLinkAddData_v2(void) __attribute__((alias("refuse")));
int cuLinkComplete(void) __attribute__((alias("refuse")));
int cuLinkCreate(void) __attribute__((alias("refuse")));
int cuLinkCreate_v2(void) __attribute__((alias("refuse")));
int cuLinkDestroy(void) __attribute__((alias("refuse")));
int cuModuleGetFunction(void) __attribute__((alias("refuse")));
int cuModuleGetGlobal(void) __attribute__((alias("refuse")));
int cuModuleGetGlobal_v2(void) __attribute__((alias("refuse")));
int cuModuleLoadData(void) __attribute__((alias("refuse")));
int cuModuleLoadDataEx(void) __attribute__((alias("refuse")));
int cuModuleUnload(void) __attribute__((alias("refuse")));
int cuOccupancyMaxActiveBlocksPerMultiprocessor(void) __attribute__((alias("refuse")));
int cuOccupancyMaxActiveClusters(void) __attribute__((alias("refuse")));
int cuOccupancyMaxPotentialClusterSize(void) __attribute__((alias("refuse")));
int cuPointerGetAttribute(void) __attribute__((alias("refuse")));
int cuStreamGetCtx(void) __attribute__((alias("refuse")));
int cuTensorMapEncodeIm2col(void) __attribute__((alias("refuse")));
int cuTensorMapEncodeTiled(void) __attribute__((alias("refuse")));

int cuInit(unsigned flags) {
  (void)flags;
  return no_device;
}

int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}

int cuGetErrorString(int error, const char** text) {
  (void)error;
  *text = "no CUDA device: this is the planning driver";
  return success;
}

int cuGetErrorName(int error, const char** text) {
  *text = error == success ? "CUDA_SUCCESS" : "CUDA_ERROR_NO_DEVICE";
  return success;
}

int cuLibraryLoadData(void** library, const void* code, void** jit_options, void** jit_values,
                      unsigned jit_count, void** library_options, void** library_values,
                      unsigned library_count) {
  (void)code, (void)jit_options, (void)jit_values, (void)jit_count;
  (void)library_options, (void)library_values, (void)library_count;
  *library = &nothing_is_here;
  return success;
}

int cuLibraryUnload(void* library) {
  (void)library;
  return success;
}

int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  (void)library, (void)name;
  *kernel = &nothing_is_here;
  return success;
}

int cuGetProcAddress_v2(const char* name, void** function, int version, uint64_t flags,
                        int* status) {
  (void)version, (void)flags;
  // The CUDA runtime queries the version first and treats an error as a driver that is too old.
  if (strcmp(name, "cuDriverGetVersion") == 0)
    *function = (void*)(uintptr_t)cuDriverGetVersion;
  else if (strcmp(name, "cuGetErrorString") == 0)
    *function = (void*)(uintptr_t)cuGetErrorString;
  else if (strcmp(name, "cuGetErrorName") == 0)
    *function = (void*)(uintptr_t)cuGetErrorName;
  else if (strncmp(name, "cuGetProcAddress", 16) == 0)
    *function = (void*)(uintptr_t)cuGetProcAddress_v2;
  else
    *function = (void*)(uintptr_t)refuse;
  if (status != 0) *status = success;
  return success;
}

int cuGetProcAddress(const char* name, void** function, int version, uint64_t flags) {
  return cuGetProcAddress_v2(name, function, version, flags, 0);
}
