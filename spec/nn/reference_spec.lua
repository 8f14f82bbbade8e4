-- Tests every layer and loss by comparing it with PyTorch in float64: shapes, results, and gradients of the parameters
-- and the first input. nn.py has written the expected values to spec/fixtures/nn.lua.
local torch = require "tlua"
local formulas = require "spec.support.nn_utils"
local nn = torch.nn
local rows = dofile "spec/fixtures/nn.lua"

-- The formulas by which nn.py makes inputs and parameters. `which` is the index of the input, counted from 0.
local make = {
   f = function(k, which) return math.sin(1 + 1.37 * k + which) end,
   p = function(k, which) return 0.5 + 0.4 * math.sin(1 + 1.37 * k + which) end,
   s = function(k) return k % 3 == 0 and 1.0 or -1.0 end,
   c = function(k, _, n) return (k * 7 + 3 + k // 4) % n + 1 end,
}

local function input(text, which)
   local kind, classes, sizes = text:match "^(%a)(%d*) (.*)$"
   if kind == "m" then
      local m, n = sizes:match "(%d+),(%d+)"
      return torch.ones(tonumber(m), tonumber(n), {dtype = "bool"}):triu(1)
   end
   local shape, n = {}, 1
   for size in sizes:gmatch "%d+" do
      shape[#shape + 1] = math.tointeger(size)
      n = n * shape[#shape]
   end
   local values = formulas.sequence(n, function(k) return make[kind](k, which, tonumber(classes)) end)
   return values:to(kind == "c" and "int64" or "float64"):view(shape)
end

local function build(constructor)
   return formulas.filled(load("local nn, torch = ...; return " .. constructor)(nn, torch))
end

-- PyTorch and tlua compute in float64, but add numbers in different orders.
local usual_tolerance <const> = 1e-9

describe("a layer matches PyTorch:", function()
   for _, row in ipairs(rows) do
      local tolerance = row.tolerance or usual_tolerance
      it(row[1] .. " of " .. row[2], function()
         local module = build(row[1])
         local inputs = {}
         for text in row[2]:gmatch "[^;]+" do inputs[#inputs + 1] = input(text:match "^%s*(.*)$", #inputs) end
         if row.input then inputs[1]:requires_grad_() end
         local outputs = {module(table.unpack(inputs))}
         if type(outputs[2]) == "table" then outputs[2], outputs[3] = table.unpack(outputs[2]) end
         for i, shape in ipairs(row.shapes) do
            assert.same(shape, outputs[i].shape)
            assert.close(row.outputs[i], formulas.projection(outputs[i], 0.11), tolerance)
         end
         assert.equal(#row.shapes, #outputs)

         formulas.weighted_sum(outputs):backward()
         local parameters = module:parameters()
         assert.equal(#(row.grads or {}), #parameters)
         for i, parameter in ipairs(parameters) do
            assert.close(row.grads[i], formulas.projection(parameter.grad, 0.17), tolerance)
         end
         if row.input then assert.close(row.input, formulas.projection(inputs[1].grad, 0.17), tolerance) end
      end)
   end
end)
