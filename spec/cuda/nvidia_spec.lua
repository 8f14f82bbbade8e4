-- Tests NVML and NVTX, two more NVIDIA libraries that tlua uses. A replacement for NVML supplies the statistics. If
-- NVTX is installed, it passes ranges and marks to a replacement for Nsight.

local shell = require "spec.support.shell"
local emulated <const> = require("spec.support.device").is_emulated() and it or pending

-- The source of the replacement for NVML. Each device has different statistics, so that a wrong device is noticed.
local nvml <const> = [[
#include <string.h>
typedef struct { unsigned gpu, memory; } Rates;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gi, ci; } Process;
static char uuid[64];
int nvmlInit_v2(void) { return 0; }
const char *nvmlErrorString(int e) { return e == 3 ? "Not Supported" : e == 6 ? "Not Found" : "?"; }
int nvmlDeviceGetHandleByUUID(const char *u, void **d) {
  if (strncmp(u, "GPU-", 4) != 0 || strlen(u) != 40) return 6;
  *d = strcpy(uuid, u);
  return 0;
}
int nvmlDeviceGetUtilizationRates(void *d, Rates *r) { return d == uuid ? (*r = (Rates){37, 21}, 0) : 6; }
int nvmlDeviceGetTemperature(void *d, int s, unsigned *t) { return s ? 2 : (*t = 41, d != uuid); }
int nvmlDeviceGetPowerUsage(void *d, unsigned *p) { (void)d, (void)p; return 3; }
int nvmlDeviceGetClockInfo(void *d, int w, unsigned *c) { return *c = w == 1 ? 1980 : 0, d != uuid; }
int nvmlDeviceGetMemoryInfo(void *d, Memory *m) { return *m = (Memory){9, 4, 5}, d != uuid; }
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, Process *p) {
  p[0] = (Process){77, 3 << 20, 0, 0}, p[1] = (Process){78, -1, 0, 0};
  return *n = 2, d != uuid;
}
]]

-- The source of the replacement for Nsight. NVTX 3 passes function tables to it, and it fills in their entries.
local injection <const> = [[
#include <stdint.h>
#include <stdio.h>
typedef struct { uint32_t size; const void *(*get)(uint32_t); } Tables;
typedef struct { uint32_t size; int (*module)(uint32_t, void (****)(void), uint32_t *); } Callbacks;
static int depth;
static int push(const char *s) { return printf("push %s\n", s), depth++; }
static int pop(void) { return printf("pop\n"), --depth; }
static void mark(const char *s) { printf("mark %s\n", s); }
static uint64_t start(const char *s) { return printf("start %s\n", s), 1234567; }
static void end(uint64_t id) { printf("end %d\n", (int)id); }
int InitializeInjectionNvtx2(const void *(*get)(uint32_t)) {
  const Callbacks *c = get(1);
  void (***table)(void);
  uint32_t n = 0;
  if (!c || !c->module(1, &table, &n) || n < 14) return 0;
  setvbuf(stdout, NULL, _IONBF, 0);
  *table[2] = (void (*)(void))mark, *table[5] = (void (*)(void))start;
  *table[7] = (void (*)(void))end, *table[9] = (void (*)(void))push;
  *table[11] = (void (*)(void))pop;
  return 1;
}
]]

local function library(folder, name, text)
   local source, made = folder .. "/" .. name .. ".c", folder .. "/" .. name
   shell.write(source, text)
   shell.ok(("%s -shared -fPIC -o %s %s"):format(os.getenv "CC" or "cc", made, source))
   return made
end

local function run(settings, program)
   return shell.run(("%s %s -e %s 2>&1"):format(settings, shell.start(), shell.quote(program)))
end

describe("NVML", function()
   emulated("reports the statistics of the given device", function()
      shell.with_folder(function(folder)
         library(folder, "libnvidia-ml.so.1", nvml)
         local output = run("LD_LIBRARY_PATH=" .. folder, [[
            local c = torch.cuda
            print(c.utilization(), c.memory_usage "cuda:1", c.temperature(0), c.clock_rate(),
               c.device_memory_used())
            print(c.list_gpu_processes(1))
            print(pcall(c.power_draw))
            print(pcall(c.utilization, 9))]])
         assert.equal("37\t21\t41\t1980\t5\nGPU:1\nprocess         77 uses     3.000 MB GPU memory\n" ..
            "process         78 uses   an unknown GPU memory\nfalse\tcuda.power_draw: NVML: Not Supported\n" ..
            "false\tcuda.utilization: device cuda:9: expected cuda:0 to cuda:1\n",
            (output:gsub("%(command line%):%d+: ", "")))
      end)
   end)

   it("is reported as missing if it is not installed", function()
      local output = run("", "print(pcall(torch.cuda.utilization))")
      if output:find("^true") then return pending "a driver is installed here" end
      assert.matches("cuda.utilization: libnvidia%-ml.so.1 was not found; it comes with NVIDIA's driver", output)
   end)
end)

describe("NVTX", function()
   it("passes ranges and marks to an attached tool", shell.in_folder(function(folder)
      local tool = library(folder, "tool.so", injection)
      local found = os.getenv "CUDA_HOME" or "/usr/local/cuda"
      local settings = ("LD_LIBRARY_PATH=%s/lib64 NVTX_INJECTION64_PATH=%s"):format(found, tool)
      local output = run(settings, [[
            local nvtx = torch.cuda.nvtx
            print(pcall(nvtx.range_push, {}))
            local ok, depth = pcall(nvtx.range_push, "outer")
            if not ok then print(depth) return end
            io.stdout:setvbuf "no"
            print(depth, nvtx.range_push "inner")
            nvtx.mark "here"
            print(nvtx.range_pop(), nvtx.range_pop())
            local id = nvtx.range_start "long"
            nvtx.range_end(id)
            print(nvtx.range("around", function(a, b) return b, a end, 1, 2))
            print(pcall(nvtx.range, "around", function() error "no" end))]])
      output = output:gsub("%(command line%):%d+: ", ""):gsub("^[^\n]*\n", function(line)
         assert.equal("false\tcuda.nvtx.range_push: msg: expected a string, got table\n", line)
         return ""
      end)
      if output:find "was not found" then
         assert.matches("cuda.nvtx.range_push: libnvtx3interop.so.1 was not found; it comes with " ..
            "CUDA's toolkit", output)
         return pending "NVTX is not installed here"
      end
      assert.equal("push outer\npush inner\n0\t1\nmark here\npop\npop\n1\t0\nstart long\n" ..
         "end 1234567\npush around\npop\n2\t1\npush around\npop\nfalse\tno\n", output)
   end))
end)
