local torch = require "tlua"
local nn = torch.nn

local function future(n) return torch.ones(n, n, {dtype = "bool"}):triu(1) end

describe("masks of transformers", function()
   it("are the same by position and by name", function()
      torch.manual_seed(1)
      local layer = nn.TransformerEncoderLayer(4, 2, 8, 0)
      local x = torch.randn(3, 2, 4)
      local plain, masked = layer(x), layer(x, future(3))
      assert.is_false(torch.allclose(plain, masked))
      assert.is_true(torch.equal(masked, layer(x, {src_mask = future(3)})))
      assert.is_true(torch.equal(masked, layer(x, {is_causal = true})))
   end)

   it("reach every layer of an encoder under the name mask", function()
      torch.manual_seed(1)
      local encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0), 2)
      local x = torch.randn(3, 2, 4)
      local changed = x:clone()
      changed[3] = 7 -- this position comes after all positions that are compared
      local before = encoder(x, {mask = future(3)})
      local after = encoder(changed, {mask = future(3)})
      assert.is_true(torch.equal(before:narrow(1, 1, 2), after:narrow(1, 1, 2)))
      assert.is_false(torch.equal(encoder(x):narrow(1, 1, 2), encoder(changed):narrow(1, 1, 2)))
   end)

   it("that the forward does not take are errors", function()
      local layer = nn.TransformerEncoderLayer(4, 2, 8, 0)
      local x = torch.randn(3, 2, 4)
      assert.raises("nn.TransformerEncoderLayer.forward: unknown option src_maks; did you mean "
         .. "src_mask?", function() layer(x, {src_maks = future(3)}) end)
      assert.raises("nn.TransformerEncoder.forward: unknown option src_mask",
         function() nn.TransformerEncoder(layer, 1)(x, {src_mask = future(3)}) end)
      assert.raises("nn.Transformer.forward: unknown option mask",
         function() nn.Transformer(4, 2, 1, 1, 8, 0)(x, x, {mask = future(3)}) end)
   end)
end)

describe("a stack of transformer layers", function()
   it("takes PyTorch's options by name", function()
      local layer = nn.TransformerEncoderLayer(4, 2, 8, 0)
      local encoder = nn.TransformerEncoder(layer, 2, {norm = nn.LayerNorm(4), enable_nested_tensor = false})
      assert.equal("nn.LayerNorm", torch.type(encoder.norm))
      assert.equal(2, #encoder.layers)
      assert.raises("nn.TransformerEncoder: norm: expected a module, got 3",
         function() nn.TransformerEncoder(layer, 2, 3) end)
   end)

   it("may be one of the user's own in a Transformer", function()
      local Twice = torch.class("Twice", nn.Module)
      function Twice:forward(src) return src * 2 end -- luacheck: no unused args
      local Sum = torch.class("Sum", nn.Module)
      function Sum:forward(tgt, memory) return tgt + memory end -- luacheck: no unused args
      local model = nn.Transformer(4, 2, {custom_encoder = Twice(), custom_decoder = Sum()})
      local out = model(torch.full({2, 1, 4}, 3.0), torch.ones(2, 1, 4))
      assert.same({7.0, 7.0, 7.0, 7.0}, out[1][1]:tolist())
      assert.raises("nn.Transformer: custom_encoder: expected a module, got 5",
         function() nn.Transformer(4, 2, {custom_encoder = 5}) end)
   end)
end)

it("numbers of layers that are too large to build are refused", function()
   local layer = nn.TransformerEncoderLayer(2, 1, {dim_feedforward = 2})
   for _, n in ipairs {65537, 1 << 31, math.maxinteger, -1, 1.5} do
      local expected = "expected an integer from 0 to 65536, got " .. n
      assert.raises("num_layers: " .. expected, function() nn.TransformerEncoder(layer, n) end)
      assert.raises("num_layers: " .. expected, function() nn.TransformerDecoder(layer, n) end)
      assert.raises("num_decoder_layers: " .. expected, function() nn.Transformer(2, 1, {num_decoder_layers = n}) end)
      assert.raises("num_layers: " .. expected, function() nn.GRU(2, 2, {num_layers = n}) end)
   end
end)
