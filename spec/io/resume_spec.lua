-- Tests a training that saves a checkpoint in the middle of an epoch and continues in another process.

local shell = require "spec.support.shell"

-- Trains from step `first` to step `last`. Saves a checkpoint at the end, or in the middle of a longer training.
local program <const> = [[
local torch = require "tlua"
local nn, optim, data = torch.nn, torch.optim, torch.data
local first, last, from, to = tonumber(arg[1]), tonumber(arg[2]), arg[3], arg[4]
torch.manual_seed(1)
local Noisy = torch.class("Noisy", data.Dataset)
function Noisy:__len() return 90 end
function Noisy:get(i)
   local x = torch.randn(4) + i / 90
   return x, x:sum()
end
local model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Tanh(), nn.Linear(8, 1))
local adam = optim.Adam(model:parameters(), {lr = 0.01, weight_decay = 0.01})
local schedule = optim.lr_scheduler.StepLR(adam, 7, {gamma = 0.5})
local scaler = torch.amp.GradScaler("cpu", {init_scale = 8, growth_interval = 3})
local loader = data.DataLoader(Noisy(), {batch_size = 6, shuffle = true,
   num_workers = tonumber(arg[5])})
local step = first - 1
if from ~= "" then
   local state = torch.load(from)
   model:load_state_dict(state.model)
   adam:load_state_dict(state.adam)
   schedule:load_state_dict(state.schedule)
   scaler:load_state_dict(state.scaler)
   loader:load_state_dict(state.loader)
   torch.set_rng_state(state.random)
end
while step < last do
   for x, y in loader:iter() do
      adam:zero_grad()
      scaler:scale(nn.functional.mse_loss(model(x):squeeze(2), y)):backward()
      -- in some steps a gradient is infinite, and the scaler skips these steps
      if step % 11 == 9 then model[1].weight.grad:fill_(math.huge) end
      scaler:step(adam)
      scaler:update()
      schedule:step()
      step = step + 1
      if step == last then break end
   end
end
torch.save({model = model:state_dict(), adam = adam:state_dict(), schedule = schedule:state_dict(),
   scaler = scaler:state_dict(), loader = loader:state_dict(), random = torch.get_rng_state()}, to)
]]

describe("a training that is resumed", function()
   for _, workers in ipairs {0, 2} do
      it(("has the bits of one that was not, with %d workers"):format(workers), shell.in_folder(function(folder)
         local script = folder .. "/train.lua"
         shell.write(script, program)
         local function train(first, last, from, to)
            shell.ok(("%s %s %d %d '%s' %s %d"):format(shell.start(), script, first, last, from, to, workers))
         end
         local whole, half, rest = folder .. "/whole", folder .. "/half", folder .. "/rest"
         train(1, 40, "", whole)
         train(1, 20, "", half)
         train(21, 40, half, rest)
         assert.equal(shell.read(whole), shell.read(rest))
         assert.not_equal(shell.read(whole), shell.read(half))
         local scale = require "tlua".load(rest).scaler.scale
         assert.truthy(scale ~= 8 and scale ~= require "tlua".load(half).scaler.scale)
      end))
   end
end)

-- SPEC_KILLS=200 makes this test kill 200 processes.
describe("a process that is killed while it saves", function()
   it("leaves the old file or the new one", shell.in_folder(function(folder)
      local script, file, begun = folder .. "/save.lua", folder .. "/saved", os.tmpname()
      os.remove(begun)
      shell.write(script, [[
            local torch = require "tlua"
            for i = 1, 1000000 do
               torch.save({n = i, x = torch.full({50000}, i)}, arg[1])
               if i == 3 then io.open(arg[2], "w"):close() end
            end]])
      local torch = require "tlua"
      local last = 0
      local rounds = tonumber(os.getenv "SPEC_KILLS") or 4
      for round = 1, rounds do
         local seconds = rounds > 4 and round * 0.0618 % 0.5 or round / 5
         -- The process is killed some time after its first save begins, not after its start: on a busy machine, the
         -- first save begins long after the start.
         shell.run(([[%s %s %s %s & saver=$!
               until [ -e %s ] || ! kill -0 $saver; do sleep 0.01; done
               sleep %.4f; kill -9 $saver; wait $saver; rm -f %s]]):format(shell.start(), script, file, begun,
            begun, seconds, begun))
         local there = io.open(file)
         if there then there:close() end
         local saved = there and torch.load(file) or {n = 1, x = torch.ones(1)}
         assert.is_true(saved.x:eq(saved.n):all():item())
         assert.truthy(saved.n >= 1)
         last = math.max(last, saved.n)
      end
      assert.truthy(last > 1)
      -- Killed processes may leave complete temporary files. The next save removes them.
      for name in shell.ok("ls -A " .. shell.quote(folder)):gmatch "[^\n]+" do
         if name ~= "save.lua" and name ~= "saved" then
            assert.matches("^%.tlua%-[%w-]+%.tmp$", name)
            local whole = torch.load(folder .. "/" .. name)
            assert.is_true(whole.x:eq(whole.n):all():item())
         end
      end
      torch.save({}, file)
      assert.equal("save.lua\nsaved\n", shell.ok("ls -A " .. shell.quote(folder)))
   end))
end)
