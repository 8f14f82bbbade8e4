-- Tests _cached_attention, which language models call for each new token: the new keys and values are stored in the
-- caches of several sequences, in float32, in float16 or as groups of 32 elements of 8 bits, and each query sees the
-- keys of its own sequence.

local torch = require "tlua"
local device = require "spec.support.device"

local F = torch.nn.functional
local where <const> = device.name or "cpu"

-- Rounds (1, G, N, D) to 8 bits as a cache does. Returns the integers and the scales.
local function rounded(x)
   local groups = x:unflatten(4, {-1, 32})
   local scales = (groups:abs():amax(5) / 127):to "float16"
   return (groups * scales:float():reciprocal():unsqueeze(5)):round():clamp(-127, 127):to "int8":flatten(4), scales
end

local function widened(q, scales)
   return (q:double():unflatten(4, {-1, 32}) * scales:double():unsqueeze(5)):flatten(4)
end

-- Returns an empty cache, and a function that returns the first `n` of its keys and of its values in float64.
local function new_cache(kind, groups, capacity, size)
   local function empty(dtype, width)
      return torch.full({1, groups, capacity, width}, 0, {dtype = dtype, device = where})
   end
   local stored = {empty(kind, size), empty(kind, size)}
   if kind == "int8" then stored[3], stored[4] = empty("float16", size // 32), empty("float16", size // 32) end
   return stored, function(n)
      local result = {}
      for i = 1, 2 do
         local own = stored[i]:narrow(3, 1, n)
         result[i] = kind == "int8" and widened(own, stored[i + 2]:narrow(3, 1, n)) or own:double()
      end
      return result[1], result[2]
   end
end

-- Returns what the cache must hold for the numbers x, in float64.
local function as_stored(kind, x)
   if kind == "int8" then return widened(rounded(x)) end
   return x:to(kind):double()
end

describe("_cached_attention", function()
   if where:find "cuda" then
      pending "has no kernel for GPUs, whose models call scaled_dot_product_attention"
      return
   end

   local cases = {
      {heads = 4, groups = 4, size = 64}, {heads = 6, groups = 2, size = 32},
      {heads = 2, groups = 1, size = 96, window = 5}, {heads = 3, groups = 1, size = 20},
      {heads = 2, groups = 2, size = 1},
   }

   for _, kind in ipairs {"float32", "float16", "int8"} do
      it("is the attention of each query to its own sequence's keys: " .. kind, function()
         torch.manual_seed(1)
         for _, case in ipairs(cases) do
            local size = kind == "int8" and (case.size + 31) // 32 * 32 or case.size
            local caches, all, used, lists = {}, {}, {0, 0, 0}, {}
            for i = 1, 3 do
               caches[i], all[i] = new_cache(kind, case.groups, 200, size)
               for _, tensor in ipairs(caches[i]) do lists[#lists + 1] = tensor end
            end
            for step, counts in ipairs {{1, 120, 3}, {1, 1, 1}, {2, 1, 4}, {0, 30, 1}} do
               local total = counts[1] + counts[2] + counts[3]
               -- the rows of keys are not contiguous; in one step, the rows of queries are not contiguous either
               local q = torch.randn(1, case.heads, size, total):transpose(3, 4)
               if step > 1 then q = q:contiguous() end
               local k = torch.randn(1, total, case.groups, size):transpose(2, 3)
               local v = torch.randn(1, total, case.groups, size):transpose(2, 3)
               local got = torch._cached_attention(q:to(where), k:to(where), v:to(where), lists, used,
                  counts, {window = case.window, scale = 0.3})
               assert.same({1, case.heads, total, size}, got.shape)
               local first = 1
               for i, n in ipairs(counts) do
                  local before, after = used[i], used[i] + n
                  used[i] = after
                  if n > 0 then
                     local keys, values = all[i](after)
                     for x, held in pairs {[k] = keys, [v] = values} do
                        local new = held:narrow(3, before + 1, n)
                        assert.is_true(torch.equal(as_stored(kind, x:narrow(3, first, n)), new))
                     end
                     local place = torch.arange(before + 1, after + 1):unsqueeze(2)
                     local seen = torch.arange(1, after + 1):unsqueeze(1)
                     local mask = seen:le(place) & seen:gt(place - (case.window or 1000))
                     local expected = F.scaled_dot_product_attention(q:narrow(3, first, n):double(), keys, values,
                        mask, 0, false, {scale = 0.3, enable_gqa = true})
                     assert.is_true((expected - got:narrow(3, first, n):double()):abs():max():item() < 1e-5)
                  end
                  first = first + n
               end
            end
         end
      end)
   end

   it("computes more sequences than one call of the kernel takes", function()
      local lists, used, counts = {}, {}, {}
      for i = 1, 40 do
         lists[2 * i - 1] = torch.full({1, 1, 2, 1}, 0, {dtype = "float32", device = where})
         lists[2 * i] = torch.full({1, 1, 2, 1}, i, {dtype = "float32", device = where})
         used[i], counts[i] = 1, 1
      end
      -- both scores are 0, so the result is the mean of the earlier value, i, and of the new one, 0
      local zeros = torch.zeros(1, 1, 40, 1, {device = where})
      local y = torch._cached_attention(zeros, zeros, zeros, lists, used, counts)
      assert.is_true(torch.equal(torch.arange(1, 41) / 2, y:flatten()))
   end)

   it("gives NaN for numbers that are not finite, and zeros for zeros, in 8 bits", function()
      for value, expected in pairs {[0.0] = 0.0, [1 / 0] = 0 / 0, [-1 / 0] = 0 / 0, [1e9] = 0 / 0} do
         local stored = new_cache("int8", 1, 1, 32)
         local zeros = torch.zeros(1, 1, 1, 32, {device = where})
         local v = torch.zeros(1, 1, 1, 32)
         v[{1, 1, 1, 3}] = value
         local y = torch._cached_attention(zeros, zeros, v:to(where), stored, {0}, {1})[{1, 1, 1, 3}]:item()
         assert.equal(expected ~= expected, y ~= y)
         if expected == expected then assert.equal(expected, y) end
      end
   end)

   it("computes the shape of the result on the meta device", function()
      local q, k = torch.empty(1, 6, 2, 32, {device = "meta"}), torch.empty(1, 3, 2, 32, {device = "meta"})
      local stored = {torch.empty(1, 3, 4, 32, {device = "meta"}), torch.empty(1, 3, 4, 32, {device = "meta"})}
      local y = torch._cached_attention(q, k, k, stored, {1}, {2})
      assert.same({1, 6, 2, 32}, y.shape)
      assert.equal("meta", y.device.type)
   end)

   it("names the argument that is wrong, and changes nothing", function()
      local function zeros(...) return torch.zeros(..., {device = where}) end
      local q, k = zeros {1, 2, 1, 32}, zeros {1, 1, 1, 32}
      local one, two = torch.full({1, 1, 4, 32}, 7, {dtype = "float32", device = where}),
         torch.full({1, 1, 4, 32}, 7, {dtype = "float32", device = where})
      local int8 = new_cache("int8", 1, 4, 32)
      local function bad(message, ...)
         local arguments = table.pack(...)
         assert.raises(message, function() torch._cached_attention(table.unpack(arguments, 1, arguments.n)) end)
      end
      bad("query: expected float32, got float64", q:double(), k, k, {one, two}, {0}, {1})
      bad("key: expected (1, heads, positions, features), got shape [1, 1, 32]", q, k[1], k, {one, two}, {0}, {1})
      bad("do not fit", zeros {1, 3, 1, 16}, k, k, {one, two}, {0}, {1})
      bad("do not fit", zeros {1, 0, 1, 32}, k, k, {one, two}, {0}, {1})
      bad("expected as many counts as used, and 2 tensors for each; got 1, 2 and 2", q, k, k, {one, two}, {0, 0}, {1})
      bad("expected as many counts as used, and 2 tensors for each; got 1, 1 and 1", q, k, k, {one}, {0}, {1})
      bad("stored: expected float32, float16 or int8, got float64", q, k, k, {one:double(), two:double()}, {0}, {1})
      bad("stored[2]: expected float32, got float16", q, k, k, {one, two:half()}, {0}, {1})
      bad("stored[3]: expected float16, got float32", q, k, k, {int8[1], int8[2], int8[3]:float(), int8[4]}, {0}, {1})
      bad("stored[1] and stored[2] share memory", q, k, k, {one, one}, {0}, {1})
      local both = zeros {1, 1, 5, 32}
      bad("stored[1] and stored[2] share memory", q, k, k, {both:narrow(3, 1, 4), both:narrow(3, 2, 4)}, {0}, {1})
      bad("stored[1]: expected a contiguous tensor (1, 1, at least 5, 32)", q, k, k, {one, two}, {4}, {1})
      bad("stored[2]: expected a contiguous tensor (1, 1, at least 1, 32)", q, k, k, {one, two:narrow(3, 1, 2)}, {0},
         {1})
      bad("used, counts: expected numbers of positions, got -1 and 1", q, k, k, {one, two}, {-1}, {1})
      bad("counts: expected the sum 1, the number of queries, got 2", q, k, k, {one, two}, {0}, {2})
      bad("window: expected at least 0, got -1", q, k, k, {one, two}, {0}, {1}, {window = -1})
      bad("cached keys have no gradients", q, k:clone():requires_grad_(), k, {one, two}, {0}, {1})
      bad("int8: expected a multiple of 32 features, got 20", zeros {1, 1, 1, 20}, zeros {1, 1, 1, 20},
         zeros {1, 1, 1, 20}, int8, {0}, {1})
      assert.is_true(one:eq(7):all():item() and two:eq(7):all():item())
      local none = k:narrow(3, 1, 0)
      assert.same({1, 2, 0, 32}, torch._cached_attention(q:narrow(3, 1, 0), none, none, {one, two}, {0}, {0}).shape)
   end)
end)
