// SPDX-License-Identifier: BSD-3-Clause
// Replaces NVML in tests: implements the functions that Lockstep uses, for one GPU at 0000:17:00.0.
// Each reading of the energy is 150 J higher than the previous one, as at 300 W after half a
// second. The utilisation is not supported.

static int started = 0;
static unsigned long long looks = 0;

int nvmlInit_v2(void) {
  ++started;
  return 0;
}

int nvmlShutdown(void) {
  --started;
  return 0;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char* address, void** device) {
  const char* expected = "0000:17:00.0";
  if (started <= 0) return 1;
  while (*expected != '\0' && *address == *expected) {
    ++address;
    ++expected;
  }
  if (*expected != *address) return 6;
  *device = &started;
  return 0;
}

int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
  if (device != &started || started != 1) return 1;
  *millijoules = 1000000 + 150000 * looks++;
  return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, unsigned int* percent) {
  (void)device;
  (void)percent;
  return 3;
}

int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  (void)device;
  memory[0] = 100;
  memory[1] = 40;
  memory[2] = 60;
  return 0;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) {
  (void)device;
  *milliwatts = 300500;
  return 0;
}
