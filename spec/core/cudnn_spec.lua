-- Tests the graphs that the CUDA plugin gives to cuDNN. cuDNN asks the CUDA driver to load the engines that it
-- compiles, so the tests use a fake driver whose functions all return success.

local shell = require "spec.support.shell"

-- The source code of the fake driver. cuDNN calls these functions to get handles, and to look up functions by name.
local driver <const> = [[
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
static int zero(void) { return 0; }
static int handle(void **to) { static int one; return *to = &one, 0; }
int cuGetExportTable(const void **table, const void *id) { (void)id; return *table = 0, 500; }
int cuGetProcAddress(const char *name, void **to, int version, uint64_t flags) {
  (void)version, (void)flags;
  *to = dlsym(RTLD_DEFAULT, name);
  if (*to == 0) *to = (void *)zero;
  return 0;
}
int cuGetProcAddress_v2(const char *name, void **to, int version, uint64_t flags, int *status) {
  if (status) *status = 0;
  return cuGetProcAddress(name, to, version, flags);
}
]]
local handles <const> = {
   "cuLibraryLoadData", "cuLibraryGetKernel", "cuLibraryGetModule", "cuKernelGetFunction",
   "cuModuleLoadData", "cuModuleLoadDataEx", "cuModuleGetFunction",
}

-- Returns all function names in the toolkit's stub library of the driver, or nil without a toolkit.
local function names_of_driver(cuda)
   local output, status = shell.run(("nm -D %s/lib64/stubs/libcuda.so"):format(cuda))
   if status ~= 0 then return nil end
   local names = {}
   for name in output:gmatch " T (cu[%w_]+)" do names[#names + 1] = name end
   return names
end

local function make_driver(folder, names)
   local known, lines = {}, {driver}
   for name in driver:gmatch "int (cu[%w_]+)%(" do known[name] = true end
   for _, name in ipairs(handles) do
      known[name] = true
      lines[#lines + 1] = ("int %s(void **to) { return handle(to); }"):format(name)
   end
   for _, name in ipairs(names) do
      if not known[name] then lines[#lines + 1] = ("int %s(void) { return 0; }"):format(name) end
      known[name] = true
   end
   shell.write(folder .. "/driver.c", table.concat(lines, "\n") .. "\n")
   shell.ok(("%s -shared -fPIC -w -Wl,-soname,libcuda.so.1 -o %s/libcuda.so.1 %s/driver.c"):format(
      os.getenv "CC" or "cc", folder, folder))
end

-- Runs a test program with cuDNN and, unless `alone` is true, with the fake driver. The tests in the list `tests` must
-- pass.
local function passes(test, tests, alone)
   local cuda = shell.run "dirname $(dirname $(command -v nvcc || echo /usr/local/cuda/bin/nvcc))"
   cuda = cuda:gsub("%s+$", "")
   local names = names_of_driver(cuda)
   if not names then return pending "there is no CUDA toolkit here" end
   shell.with_folder(function(folder)
      if not alone then make_driver(folder, names) end
      local output, status = shell.run(("LD_LIBRARY_PATH=%s:%s/lib64:$LD_LIBRARY_PATH " ..
         "%s/spec/core/%s"):format(folder, cuda, shell.build, test))
      assert.equal(0, status, output)
      if output:find("skipped", 1, true) then return pending(output) end
      for _, name in ipairs(tests) do assert.matches("\nok " .. name .. "\n", output) end
   end)
end

describe("cuDNN", function()
   it("has plans for attention, even without a GPU", function()
      passes("cudnn_test", {"attention_has_plans", "heads_that_share_keys_have_plans"})
   end)

   it("has plans for batch norm, even without a GPU", function()
      passes("cudnn_layers_test", {"batch_norms_of_a_resnet_have_plans"})
   end)

   it("accepts our recurrent layers, with parameters in our order", function()
      passes("cudnn_rnn_test", {"layers_are_accepted", "parameters_lie_as_ours_do"}, true)
   end)
end)
