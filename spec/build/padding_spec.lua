-- Tests which structs of kernels have padding bytes. These bytes are not initialised, so a struct with padding must not
-- be hashed, compared or stored as bytes. `padded` lists the structs that have padding. If a new struct has some, fill
-- it by a field, or add the struct to the list if no code looks at its bytes.

local shell = require "spec.support.shell"

-- Maps each struct to the fields that follow padding; "end" stands for padding at the struct's end.
local padded <const> = {
   "tl_Limits.end tl_Scalar.anonymous tl_Work.begin tli_IterArg.strides tlk_Array.end tlk_Attention.batch",
   "tlk_Attention.scale tlk_Classes.end tlk_Context.stream tlk_Fault.source tlk_Gemm.m tlk_Pool.divisor",
   "tlk_Rnn.steps tlk_activation_backward.grad_in tlk_check_index.source tlk_csr.out tlk_fft.out",
   "tlk_linear.inner tlk_linspace.end tlk_list_clip.count tlk_list_reduce.params tlk_nonzero.sizes",
   "tlk_optim_coefs.count tlk_optim_coefs.options tlk_optim_step.coefs tlk_packed_linear.rows tlk_random.out",
   "tlk_reduce_index.values tlk_scatter.end tlk_search.end tlk_select_rank.values tlk_softmax.out",
   "tlk_softmax_backward.grad_in",
   "tlk_sort.values tlk_topk.values",
}

-- Compiles C code. Returns the places of padding that the compiler reports for the code and the files that it includes,
-- as "struct.field".
local function padding_of(code)
   local path = os.tmpname()
   shell.write(path, code)
   local output, status = shell.run(("LC_ALL=C %s -std=c11 -x c -Wpadded -fsyntax-only -Isrc -I. -I%s/gen %s"):format(
      os.getenv "CC" or "cc", shell.build, path))
   assert.equal(0, status, output)
   local found, lines = {}, {}
   for file, line, kind in output:gmatch "([^\n:]+):(%d+):%d+: warning: padding struct ([^\n]*)" do
      if not lines[file] then
         lines[file] = {}
         for text in io.lines(file) do table.insert(lines[file], text) end
      end
      local name, i = nil, math.tointeger(tonumber(line))
      while not name do
         name, i = lines[file][i]:match "^%l* ?struct ([%w_]+) {", i - 1
      end
      local field = kind:match "to align '([%w_]+)'" or kind:find "^size" and "end" or "anonymous"
      found[#found + 1] = ("%s.%s"):format(name, field)
   end
   os.remove(path)
   table.sort(found)
   return found
end

local headers <const> = [[
#include "core/kernel/kernel.h"
#include "core/kernel/element.h"
#include "core/kernel/random.h"
#include "core/kernel/lapack.h"
]]

describe("padding", function()
   if not shell.run((os.getenv "CC" or "cc") .. " --version"):find "Free Software Foundation" then
      pending "needs GCC, whose -Wpadded names the fields"
      return
   end

   it("is found in a struct that has some, and not in others", function()
      local one = "#include <stdint.h>\nstruct A {\n  char c;\n  int64_t n;\n};\n"
      assert.equal(1, #padding_of(one))
      assert.same({}, padding_of(one:gsub("char c", "int64_t c")))
   end)

   it("is only in the structs of kernels that are known to have some", function()
      local known = {}
      for name in table.concat(padded, " "):gmatch "%S+" do known[#known + 1] = name end
      table.sort(known)
      assert.same(known, padding_of(headers))
   end)

   -- The key under which cuDNN's plans for a convolution are cached contains a tlk_Conv.
   it("is in no key that the GPU's plugin compares as bytes", function()
      local count = 0
      for path in shell.ok "ls kernels/cuda/lib/*.c":gmatch "%S+" do
         for key, name in shell.read(path):gmatch "(typedef struct (%w*Key) {.-\n} %w+;)" do
            local declared = "#include <stddef.h>\nenum { FIRST_VIRTUAL = 64, CUDNN_KEY = 512 };\n"
               .. "typedef struct cuda_DeviceKind {\n"
               .. shell.read "kernels/cuda/cuda.h":match "typedef struct cuda_DeviceKind {\n(.-} cuda_DeviceKind;)"
            local found = {}
            for _, field in ipairs(padding_of(headers .. declared .. "\n" .. key)) do
               if field:find(name .. ".", 1, true) == 1 or field:find "^tlk_Conv%." or field:find "^tlk_Windows%." then
                  found[#found + 1] = field
               end
            end
            assert.same({}, found, path)
            count = count + 1
         end
      end
      assert.is_true(count >= 6)
   end)
end)
