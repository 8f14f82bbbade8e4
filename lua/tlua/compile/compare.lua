-- compare.lua - compares the results of programs, and optimizes a program with a check that its
-- results stay the same, for torch.compile and torch.export.

local torch = require "tlua"
local nested = require "tlua.export.nested"
local optimize = require "tlua.compile.optimize"

local M = {}

local function strides_of(tensor) return table.concat(tensor:stride(), ",") end

--- Returns how a program's results differ from the expected results; nil if they do not differ.
--- `tolerance`, if given, is the allowed difference relative to the largest magnitude in the
--- tensor.
function M.difference(got, expected, tolerance)
   local shared = {}
   for i, tensor in ipairs(expected) do
      local other = got[i]
      if tensor.dtype ~= other.dtype or tostring(tensor.shape) ~= tostring(other.shape)
         or strides_of(tensor) ~= strides_of(other)
         or tensor:is_inference() ~= other:is_inference() or tensor.device ~= other.device then
         return "a result of the program has another layout"
      end
      local a, b = torch._storage_key(tensor), torch._storage_key(other)
      if shared[a] == nil then shared[a] = b end
      if shared[a] ~= b then return "results of the program share memory in another way" end
      if not nested.same_bits(other, tensor) then
         local differs <const> = "a result of the program has other values"
         if not tolerance or not tensor:is_floating_point() then return differs end
         local size = tensor:abs():max():item()
         local error_ = (tensor - other):abs():max():item()
         -- the comparison is false if one of the numbers is NaN
         local close = error_ <= tolerance * size
         if not close then return differs end
      end
   end
   return nil
end

--- Optimizes a program. `run(program)` returns the program's results for some inputs, the first of
--- which are `example`. `expected` lists the results of the program before optimization. If packed
--- convolutions would change the memory formats of results, convolutions stay as they are. Returns
--- three values: the optimized program, or nil if there is none; whether that program is valid only
--- while its constants keep their values; and the reason if optimizations were left out because an
--- optimized program failed or had other results.
function M.optimize(handle, example, expected, run)
   local problem
   for _, only in ipairs {"all", "row-major"} do
      local fine, better, uses = pcall(optimize, handle, only, example)
      if not fine then return nil, false, tostring(better) end
      if not better then return nil, false, problem end
      local ran, outputs = pcall(run, better)
      local wrong = not ran and tostring(outputs) or ran and M.difference(outputs, expected, 1e-4)
      if not wrong then return better, uses, problem end
      problem = problem or wrong
   end
   return nil, false, problem
end

return M
