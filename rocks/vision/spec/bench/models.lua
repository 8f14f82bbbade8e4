-- models.lua - times one model. models.py runs this program and explains the measurement.
--
--    tlua rocks/vision/spec/bench/models.lua NAME
--
-- The program prints the milliseconds of processor time of the fastest forward pass and the fastest training step
-- (forward, backward, SGD), for batches of 1 and 8 images of 224 x 224 pixels, on one thread.

local torch = require "tlua"

torch.set_num_threads(1)
torch.manual_seed(0)

local model = torch.vision.models.get_model(arg[1], {num_classes = 1000})
local sgd = torch.optim.SGD(model:parameters(), {lr = 1e-3})

local function measure(fn, n)
   fn()
   local best = math.huge
   for _ = 1, n do
      local start = os.clock()
      fn()
      best = math.min(best, os.clock() - start)
   end
   return best * 1e3
end

local function step(x, y)
   sgd:zero_grad()
   local out = model(x)
   if not torch.is_tensor(out) then out = out.logits or out[1] end
   torch.nn.functional.cross_entropy(out, y):backward()
   sgd:step()
end

local results = {}
for _, n in ipairs {1, 8} do
   local x, y = torch.randn(n, 3, 224, 224), torch.randint(1, 1001, {n})
   model:eval()
   results[#results + 1] = measure(function() torch.no_grad(function() model(x) end) end, n == 1 and 5 or 3)
   if n > 1 then
      model:train()
      results[#results + 1] = measure(function() step(x, y) end, 2)
   end
end
print(("%.2f %.2f %.2f"):format(table.unpack(results)))
