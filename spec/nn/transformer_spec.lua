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

describe("attention", function()
   -- PyTorch raises errors for the same calls. Without a check, sizes of 1 would broadcast, and an integer mask would
   -- be added to the scores.
   it("refuses sequences and masks whose sizes or dtypes do not fit", function()
      local attention = nn.MultiheadAttention(4, 2, {batch_first = true})
      local x, k = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
      local function refuses(message, ...)
         local given = table.pack(...)
         assert.raises("nn.MultiheadAttention: " .. message, function() attention(table.unpack(given, 1, given.n)) end)
      end
      local one = k:narrow(1, 1, 1)
      refuses("key: expected the query's batch of 2, got a float32 tensor of shape (1, 5, 4)", x, one, one)
      refuses("value: expected the query's batch of 2", x, k, one)
      refuses("value: expected the key's length of 5", x, k, x)
      refuses("key: expected 3 dimensions", x, k[1], k)
      refuses("value: expected 2 dimensions, as the query has", x[1], k[1], k)
      refuses("query: expected 3 dimensions", x:unsqueeze(1), k, k)
      local shapes = "attn_mask: expected shape (3, 5) or (4, 3, 5), got a float32 tensor of shape "
      refuses(shapes .. "(1, 5)", x, k, k, {attn_mask = torch.zeros(1, 5)})
      refuses(shapes .. "(2, 3, 5)", x, k, k, {attn_mask = torch.zeros(2, 3, 5)})
      refuses("attn_mask: expected a bool or floating-point tensor, got an int64 tensor", x, k, k,
         {attn_mask = torch.ones(3, 5):long()})
      refuses("key_padding_mask: expected shape (2, 5), got a bool tensor of shape (1, 5)", x, k, k,
         {key_padding_mask = torch.zeros(1, 5):bool()})
      refuses("key_padding_mask: expected a bool or floating-point tensor", x, k, k,
         {key_padding_mask = torch.ones(2, 5):long()})
      refuses("key_padding_mask: expected shape (5)", x[1], k[1], k[1], {key_padding_mask = torch.zeros(1, 5):bool()})
      assert.equal(torch.Size {3, 4}, attention(x[1], k[1], k[1], {key_padding_mask = torch.zeros(5):bool(),
         attn_mask = torch.zeros(2, 3, 5)}).shape)
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
