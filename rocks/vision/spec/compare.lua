-- compare.lua - compares models with the files that reference.py has written:
--
--    for m in $(tlua rocks/vision/spec/compare.lua); do
--       python rocks/vision/spec/reference.py /tmp $m && tlua rocks/vision/spec/compare.lua /tmp $m
--    done
--
-- Without arguments, the program prints the names of the models. Otherwise it prints a line for each model: its name,
-- whether the keys of the state dicts are equal, and the largest differences of the outputs in evaluation mode, of the
-- outputs in training mode, and of the gradients. Differences of outputs are relative to the largest value of an
-- output. The difference of a gradient is relative to its length, or to a thousandth of the length of the longest
-- gradient if that is larger.

local torch = require "tlua"

local models = torch.vision.models

local M = {}

local function difference(expected, actual)
   local scale = expected:abs():max():item()
   return (expected - actual):abs():max():item() / math.max(scale, 1e-12)
end

local function options_of(name, image)
   local options = {num_classes = 10}
   if name == "googlenet" or name == "inception_v3" then options.init_weights = false end
   if name:find "^vit_" then options.image_size = image:size(3) end
   if name:find "^mvit" then options.spatial_size, options.temporal_size = {64, 64}, 8 end
   return options
end

-- Turns off dropout and stochastic depth, whose results are random.
local function without_chance(model)
   for _, layer in ipairs(model:modules()) do
      local kind = torch.type(layer)
      if kind == "nn.Dropout" or kind == "vision.ops.StochasticDepth" then layer.p = 0 end
   end
end

local function outputs_of(model, image)
   local outputs = table.pack(model(image))
   if type(outputs[1]) == "table" then
      local named = outputs[1]
      outputs = {named.out, named.aux}
   end
   return outputs
end

local function gradients_differ(model, saved)
   local worst, where, longest = 0, "", 0
   for key, value in pairs(saved) do
      if key:find "^gradient%." then longest = math.max(longest, value[2]:item()) end
   end
   local names = {}
   for key, value in pairs(model:state_dict {names = "pytorch"}) do names[value:data_ptr()] = key end
   for _, parameter in model:named_parameters() do
      local name = names[parameter:data_ptr()]
      local expected = saved["gradient." .. name]
      if (expected ~= nil) ~= (parameter.grad ~= nil) then return math.huge, name end
      if expected ~= nil then
         local flat = parameter.grad:double():flatten()
         local wave = torch.arange(1, flat:numel() + 1, {dtype = "float64"}):cos()
         local actual = flat:dot(wave):item()
         local d = math.abs(actual - expected[1]:item())
            / math.max(expected[2]:item(), 1e-3 * longest)
         if d > worst then worst, where = d, name end
      end
   end
   return worst, where
end

--- Compares a model with a file. Returns nil, the largest differences of the outputs in evaluation mode, of the outputs
--- in training mode and of the gradients, and the name of the weight whose gradient differs most. Returns only a
--- message if the keys of the state dicts differ.
function M.compare(name, path)
   local saved, state = torch.load(path), {}
   for key, value in pairs(saved) do
      if key:find "^state%." then state[key:sub(7)] = value end
   end
   local model = models.get_model(name, options_of(name, saved.input))
   local ok, message = pcall(function() model:load_state_dict(state, {names = "pytorch"}) end)
   if not ok then return message end
   without_chance(model)
   model:eval()
   local in_eval, in_train = 0, 0
   torch.no_grad(function()
      for i, output in ipairs(outputs_of(model, saved.input)) do
         in_eval = math.max(in_eval, difference(saved["eval." .. i - 1], output))
      end
   end)
   model:train():double()
   local loss = 0
   for i, output in ipairs(outputs_of(model, saved.input:double())) do
      in_train = math.max(in_train, difference(saved["train." .. i - 1], output:detach()))
      local weight = torch.arange(1, output:numel() + 1, {dtype = "float64"}):sin()
      loss = loss + (output * weight:view_as(output)):sum()
   end
   loss:backward()
   local worst, where = gradients_differ(model, saved)
   return nil, in_eval, in_train, worst, where
end

if arg and arg[0] and arg[0]:find "compare%.lua$" then
   if not arg[1] then print(table.concat(models.list_models(), "\n")) end
   for i = 2, #arg do
      local message, in_eval, in_train, gradients = M.compare(arg[i], ("%s/%s.pt"):format(arg[1], arg[i]))
      if message then
         print(("%-22s keys differ: %s"):format(arg[i], message:sub(1, 300)))
      else
         print(("%-22s keys equal  eval %.1e  train %.1e  gradients %.1e"):format(arg[i], in_eval,
            in_train, gradients))
      end
   end
end

return M
