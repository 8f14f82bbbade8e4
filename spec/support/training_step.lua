-- training_step.lua - a small network and its training step, for the specs of torch.export_step.

local torch = require "tlua"
local nn, optim, F = torch.nn, torch.optim, torch.nn.functional

local M = {}

function M.mlp() return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 4)) end

function M.sgd(params) return optim.SGD(params, {lr = 0.05, momentum = 0.9}) end

-- Returns a training step for a model, and the objects that the step uses.
function M.of(model, options)
   local optimizer = options.optimizer(model:parameters())
   local scheduler = options.scheduler and options.scheduler(optimizer)
   local scaler = options.scaler and torch.GradScaler("cpu", options.scaler)
   local function step(x, y)
      optimizer:zero_grad()
      local loss
      do
         local _ <close> = options.scaler and torch.autocast "cpu" or nil
         loss = F.cross_entropy(model(x):float(), y)
      end
      if scaler then
         scaler:scale(loss):backward()
         if options.clip then scaler:unscale_(optimizer) end
      else
         loss:backward()
      end
      if options.clip then nn.utils.clip_grad_norm_(model:parameters(), options.clip) end
      if scaler then
         scaler:step(optimizer)
         scaler:update()
      else
         optimizer:step()
      end
      if scheduler then scheduler:step() end
      return loss:detach()
   end
   return step, {model = model, optimizer = optimizer, scheduler = scheduler, scaler = scaler,
                 steps = scheduler and options.steps or nil}
end

return M
