-- Returns the model of examples/digits.lua, with its weights, as a function: images (N, 1, 8, 8) of
-- grey levels from 0 to 1 become digits (N).
local torch = require "tlua"
local nn = torch.nn

local model = nn.Sequential(
   nn.Conv2d(1, 32, 3, {padding = 1}),
   nn.ReLU(),
   nn.Conv2d(32, 64, 3, {padding = 1}),
   nn.ReLU(),
   nn.MaxPool2d(2),
   nn.Dropout(0.5),
   nn.Flatten(),
   nn.Linear(64 * 4 * 4, 128),
   nn.ReLU(),
   nn.Linear(128, 10)
)
model:load_state_dict(torch.load(...))
model:eval()

return function(images)
   return model(images):argmax(2) - 1
end
