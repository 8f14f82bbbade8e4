-- Tests the losses of a network during 200 steps of every optimizer against PyTorch. The values are
-- in spec/fixtures/optim_curves.lua, written by optim_curves.py there; the problem is repeated
-- here.

local torch = require "tlua"
local problem = require "spec.support.optim"
local nn = torch.nn

local rows = dofile "spec/fixtures/optim_curves.lua"
local steps <const>, every <const> = 200, 10

-- Returns multiples of 1/8 from -10/8 to 9/8.
local function eighths(sizes, factor, offset, scale)
   local count, values = 1, {}
   for _, n in ipairs(sizes) do count = count * n end
   for i = 1, count do values[i] = ((factor * i + offset) % 20 - 10) / 8 * scale end
   return torch.tensor(values):view(sizes)
end

local function network()
   local net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
   local _ <close> = torch.no_grad()
   for k, p in ipairs(net:parameters()) do
      p:copy_(eighths(p.shape, 7 + 2 * (k - 1), 3 * (k - 1) + 1, 0.5))
   end
   return net
end

local function run(name, options, dtype)
   local net = network():to(dtype)
   local x = eighths({32, 4}, 13, 2, 1):to(dtype)
   local y = torch.stack({x:select(2, 1) * x:select(2, 2),
      (x:select(2, 3) - x:select(2, 4)):abs()}, 2) * 0.5
   local optimizer = torch.optim[name](net:parameters(), problem.options(options))
   local function closure()
      optimizer:zero_grad()
      local loss = nn.functional.mse_loss(net(x), y)
      loss:backward()
      return loss
   end
   local losses = {}
   for t = 0, steps - 1 do
      local loss
      if name == "LBFGS" then
         loss = optimizer:step(closure)
      else
         loss = closure()
         optimizer:step()
      end
      if t % every == 0 then losses[#losses + 1] = loss:item() end
   end
   losses[#losses + 1] = closure():item()
   return losses
end

describe("the losses of 200 steps follow PyTorch's:", function()
   for _, row in ipairs(rows) do
      it(table.concat(row, " ", 1, 3), function()
         local found, expected = run(row[1], row[2], row[3]), {table.unpack(row, 4)}
         assert.equal(steps // every + 1, #found)
         for i, value in ipairs(expected) do
            local distance = math.abs(found[i] - value) / value
            assert.truthy(distance < 1e-4, ("step %d: expected %.9g, got %.9g"):format((i - 1) * every,
               value, found[i]))
         end
         assert.truthy(expected[#expected] < expected[1])
      end)
   end
end)
