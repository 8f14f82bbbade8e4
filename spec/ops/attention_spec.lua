-- Scaled dot product attention against its formula, written out.
local torch = require "tlua"
local F = torch.nn.functional

local attention = F.scaled_dot_product_attention

-- mask, if any, is added.
local function formula(q, k, v, mask, scale)
   local scores = q:matmul(k:transpose(-1, -2)) * (scale or q:size(-1) ^ -0.5)
   if mask then scores = scores + mask end
   return scores:softmax(-1):matmul(v)
end

local function random(...) return torch.randn({...}, {dtype = "float64"}) end

describe("scaled_dot_product_attention", function()
   local q, k, v
   before_each(function()
      torch.manual_seed(3)
      q, k, v = random(2, 4, 3, 5), random(2, 4, 6, 5), random(2, 4, 6, 2)
   end)

   it("gives the values' mean, weighted by softmax", function()
      local one = attention(torch.tensor {{1.0, 0}}, torch.tensor {{0.0, 0}, {2 ^ 0.5 * math.log(3), 0}},
         torch.tensor {{0.0}, {4}})
      assert.close(torch.tensor {{3.0}}, one, 1e-5)
      assert.close(formula(q, k, v), attention(q, k, v), 1e-12)
      assert.close(formula(q, k, v, nil, 0.3), attention(q, k, v, {scale = 0.3}), 1e-12)
   end)

   it("adds a mask of numbers and hides keys where one of truths is false", function()
      local added = random(2, 1, 3, 6)
      assert.close(formula(q, k, v, added), attention(q, k, v, added), 1e-12)
      local seen = torch.tensor {{true, false, true, true, false, true}}
      local hidden = torch.zeros(1, 6, {dtype = "float64"}):masked_fill(seen:logical_not(), -math.huge)
      assert.close(formula(q, k, v, hidden), attention(q, k, v, seen), 1e-12)
      assert.close(formula(q, k, v, hidden), attention(q, k, v, hidden), 1e-12)
   end)

   it("lets a query see the keys up to its own place", function()
      local causal = torch.full({3, 6}, -math.huge, {dtype = "float64"}):triu(1)
      causal = causal:masked_fill(causal:isnan(), 0)
      assert.close(formula(q, k, v, causal), attention(q, k, v, {is_causal = true}), 1e-12)
   end)

   it("gives zeros, and gradients of zero, to a query that sees nothing", function()
      local seen = torch.ones(3, 6):gt(0)
      seen[2]:fill_(false)
      local added = torch.zeros(3, 6, {dtype = "float64"}):masked_fill(seen:logical_not(), -math.huge)
      for _, mask in ipairs {seen, added} do
         local x = q:clone():requires_grad_()
         local result = attention(x, k, v, mask)
         result:sum():backward()
         assert.close(torch.zeros(2, 4, 2, {dtype = "float64"}), result:detach():select(3, 2), 0)
         assert.close(torch.zeros(2, 4, 5, {dtype = "float64"}), x.grad:select(3, 2), 0)
         assert.is_false(x.grad:isnan():any():item())
         assert.close(formula(q, k, v):select(3, 1), result:detach():select(3, 1), 1e-12)
      end
   end)

   it("shares heads of keys and values between those of queries", function()
      local few_k, few_v = random(2, 2, 6, 5), random(2, 2, 6, 2)
      local expected = formula(q, few_k:repeat_interleave(2, 2), few_v:repeat_interleave(2, 2))
      assert.close(expected, attention(q, few_k, few_v, {enable_gqa = true}), 1e-12)
      assert.raises("scaled_dot_product_attention", "multiple of 3", function()
         attention(q, random(2, 3, 6, 5), random(2, 3, 6, 2), {enable_gqa = true})
      end)
   end)

   it("computes in narrower dtypes", function()
      for dtype, tolerance in pairs {float32 = 1e-5, float16 = 1e-2, bfloat16 = 6e-2} do
         local result = attention(q:to(dtype), k:to(dtype), v:to(dtype))
         assert.equal(dtype, result.dtype)
         assert.close(formula(q, k, v), result:to("float64"), tolerance)
      end
   end)

   it("rounds half types at the end only", function()
      for dtype, tolerance in pairs {float16 = 2 ^ -11, bfloat16 = 2 ^ -8} do
         local a, b, c = (q * 8):to(dtype), (k * 8):to(dtype), v:to(dtype)
         local mask = torch.zeros(3, 6, {dtype = "float64"}):masked_fill(torch.ones(3, 6):triu(1):bool(), -math.huge)
         local expected = formula(a:double(), b:double(), c:double(), mask)
         local result = attention(a, b, c, nil, 0, true):double()
         -- half a unit in the last place of numbers below 4
         assert.close(expected, result, 2 * tolerance)
      end
   end)

   it("drops weights", function()
      local ones = torch.ones(1, 400, 1)
      local result = attention(torch.zeros(1, 400, 8), torch.zeros(1, 400, 8), ones, {dropout_p = 0.5})
      assert.close(torch.tensor(1.0), result:mean(), 0.02)
      assert.is_true(result:std():item() > 0.01)
   end)

   it("names what does not fit", function()
      local name = "scaled_dot_product_attention"
      assert.raises(name, "exclude each other", function() attention(q, k, v, random(3, 6), 0, true) end)
      assert.raises(name, "one floating dtype", function() attention(q, k:float(), v) end)
      assert.raises(name, "last sizes", function() attention(q, random(2, 4, 6, 4), v) end)
      assert.raises(name, "number of positions", function() attention(q, k, random(2, 4, 5, 2)) end)
   end)
end)
