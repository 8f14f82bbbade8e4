-- Tests recurrent layers on a device. All results and gradients are compared with the CPU's: in every dtype, with and
-- without initial states, for sequences of equal length and for packed ones.

local device = require "spec.support.device"
local torch = require "tlua"
local sorted = require "spec.support.sorted"
local nn = torch.nn

local there <const> = device.name or "sim"

local kinds <const> = {
   {"RNN"},
   {"RNN", {nonlinearity = "relu", num_layers = 2}},
   {"GRU", {bidirectional = true}},
   {"LSTM", {bidirectional = true, bias = false}},
   {"LSTM", {proj_size = 3, num_layers = 2}},
}
-- The tolerances are relative to the largest absolute value in a result. A GPU rounds half-precision types after each
-- step.
local tolerance <const> = {float64 = 1e-13, float32 = 2e-6, float16 = 2e-3, bfloat16 = 1.6e-2}

-- Runs a layer on one device. Returns all results and gradients in float64.
local function run(kind, dtype, packed, with_states, where)
   local options = {dtype = dtype, device = "cpu"}
   for k, v in pairs(kind[2] or {}) do options[k] = v end
   torch.manual_seed(1)
   local layer = nn[kind[1]](5, 7, options):to(where)
   local lines = (options.num_layers or 1) * (options.bidirectional and 2 or 1)
   local function leaf(...) return torch.randn(..., {dtype = dtype, device = "cpu"}):to(where):requires_grad_() end
   local leaves = {leaf {6, 4, 5}, leaf {lines, 4, options.proj_size or 7}, leaf {lines, 4, 7}}
   local x, h0, c0 = table.unpack(leaves)
   local input = packed and nn.utils.rnn.pack_padded_sequence(x, {6, 4, 4, 1}) or x
   local states = with_states and (kind[1] == "LSTM" and {h0, c0} or h0) or nil
   local out, h, c = layer(input, states)
   if kind[1] == "LSTM" then h, c = table.unpack(h) end
   local results = {packed and out.data or out, h, c}
   local loss = 0
   for i, y in ipairs(results) do loss = loss + (y ^ (i + 1)):sum() end
   for _, p in ipairs(layer:parameters()) do leaves[#leaves + 1] = p end
   local grads = table.pack(torch.autograd.grad(loss, leaves, {allow_unused = true}))
   for i = 1, grads.n do results[#results + 1] = grads[i] end
   for i, y in ipairs(results) do results[i] = y:detach():cpu():double() end
   return results
end

describe("on a device a recurrent layer", function()
   for _, kind in ipairs(kinds) do
      for dtype, limit in sorted(tolerance) do
         it(("agrees with the CPU: %s in %s"):format(kind[1], dtype), function()
            for bits = 0, 3 do
               local packed, with_states = bits % 2 == 1, bits > 1
               local expected = run(kind, dtype, packed, with_states, "cpu")
               local actual = run(kind, dtype, packed, with_states, there)
               assert.equal(#expected, #actual)
               for i = 1, #expected do
                  local scale = math.max(expected[i]:abs():max():item(), 1e-3)
                  assert.close(expected[i] / scale, actual[i] / scale, limit)
               end
            end
         end)
      end
   end
end)
