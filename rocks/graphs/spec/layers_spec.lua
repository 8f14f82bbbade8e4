-- Compares layers with PyTorch Geometric's: results, gradients of inputs and of parameters, with the same weights,
-- which its state dicts give (fixtures/layers.py has recorded them).

local torch = require "tlua"
local sorted = require "spec.support.sorted"

local graphs = torch.graphs
local N = graphs.nn
local folder <const> = "rocks/graphs/spec/fixtures/"
local recorded = torch.load(folder .. "layers.safetensors")

-- Returns the tensors of a case below a folder of its names.
local function part(case, folder_name)
   local found, prefix = {}, case .. "/" .. folder_name .. "/"
   for name, value in pairs(recorded) do
      if name:sub(1, #prefix) == prefix then found[name:sub(#prefix + 1)] = value end
   end
   return found
end

-- Maps cases to the layers' constructors, and what forward takes by name.
local cases = {
   ["gcn"] = {function() return N.GCNConv(4, 3) end},
   ["gcn weight"] = {function() return N.GCNConv(4, 3) end, "edge_weight"},
   ["gcn improved"] = {function() return N.GCNConv(4, 3, {improved = true, bias = false}) end},
   ["gcn plain"] = {function() return N.GCNConv(4, 3, {normalize = false}) end, "edge_weight"},
   ["gcn reverse"] = {function() return N.GCNConv(4, 3, {flow = "target_to_source"}) end},
   ["gcn max"] = {function() return N.GCNConv(4, 3, {aggr = "max"}) end},
}

-- Runs a layer with the recorded weights and inputs. Returns the results, and the inputs.
local function run(case, make)
   local module = make():eval()
   module:load_state_dict(part(case, "state"))
   local inputs = part(case, "in")
   for name, value in pairs(inputs) do
      if value:is_floating_point() then
         value:requires_grad_()
      else
         inputs[name] = value + 1
      end
   end
   local x = inputs.x
   if inputs.x1 then x = {inputs.x1, inputs.x2} end
   local options = {}
   for name, value in pairs(inputs) do
      if name ~= "x" and name ~= "x1" and name ~= "x2" and name ~= "edge_index" then options[name] = value end
   end
   if next(options) == nil then options = nil end
   local results
   if inputs.edge_index then
      results = table.pack(module(x, inputs.edge_index, options))
   else
      results = table.pack(module(x, options))
   end
   return results, inputs, module
end

describe("a layer of torch.graphs.nn", function()
   for case, row in sorted(cases) do
      it("has PyTorch Geometric's results and gradients: " .. case, function()
         local results, inputs, module = run(case, row[1])
         local total, outs = 0, part(case, "out")
         for i = 1, results.n do
            local expected = outs[tostring(i - 1)]
            if expected ~= nil then
               local out = results[i]
               if expected:is_floating_point() then
                  assert.close(expected, out:detach(), 1e-5)
                  local weight = torch.linspace(-1, 1, out:numel()):view(out.shape)
                  total = total + (out * weight):sum()
               else
                  assert.same((expected + 1):tolist(), out:tolist())
               end
               outs[tostring(i - 1)] = nil
            end
         end
         assert.is_nil(next(outs))
         total:backward()
         for name, expected in pairs(part(case, "in_grad")) do
            assert.close(expected, inputs[name].grad, 1e-5)
         end
         local grads = {}
         for name, parameter in module:named_parameters() do grads[name] = parameter.grad end
         for name, expected in pairs(part(case, "grad")) do
            assert.close(expected, grads[name], 2e-5)
         end
      end)
   end
end)
