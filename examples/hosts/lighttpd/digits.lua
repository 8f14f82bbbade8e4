-- digits.lua - a network that recognises handwritten digits, for answer.lua. `require` keeps this
-- module loaded between a worker's requests, so each worker loads the network once.
local torch = require "tlua"
local nn = torch.nn

local model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
local state = torch.load(os.getenv "DIGITS_WEIGHTS")
-- the file also has PyTorch's scores of three digits, for transfer.lua, which are no parameters
state.expected = nil
model:load_state_dict(state, {names = "pytorch"})
local optimizer = torch.optim.SGD(model:parameters(), {lr = 0.05})
local M = {}

-- Reads images from text. Each line has the 64 grey levels of an image, from 0 to 16. Raises an
-- error at a bad line.
local function read(lines)
   local images = {}
   for line in lines:gmatch "[^\r\n]+" do
      local image = {}
      for level in line:gmatch "[^,]+" do
         image[#image + 1] = tonumber(level)
            or error(("line %d: '%s' is not a number"):format(#images + 1, level), 0)
      end
      if #image ~= 64 then
         error(("line %d has %d numbers; expected 64 grey levels"):format(#images + 1, #image), 0)
      end
      images[#images + 1] = image
   end
   if #images == 0 then error("no image; expected lines of 64 grey levels", 0) end
   return torch.tensor(images) / 16
end

-- Returns the digits of the images, one per line.
function M.recognise(lines)
   local images = read(lines)
   local classes = torch.no_grad(function() return model(images):argmax(2) end)
   return table.concat((classes - 1):tolist(), "\n") .. "\n"
end

-- Makes one training step on images that all show `digit`. Returns the loss before the step.
function M.learn(lines, digit)
   if not math.tointeger(digit) or digit < 0 or digit > 9 then
      error("expected /learn/DIGIT, a digit from 0 to 9", 0)
   end
   local images = read(lines)
   optimizer:zero_grad()
   local classes = torch.full({images:size(1)}, digit + 1, {dtype = "int64"})
   local loss = nn.functional.cross_entropy(model(images), classes)
   loss:backward()
   optimizer:step()
   return ("%.6f\n"):format(loss:item())
end

return M
