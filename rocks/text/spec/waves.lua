-- waves.lua - creates the models of fixtures/models.json with the weights that fixtures/models.py gives them.

local torch = require "tlua"
local json = require "tlua.utils.json"

local M = {}

local function plain(value)
   if value == json.null then return nil end
   if type(value) ~= "table" then return value end
   local copy = {}
   for key, item in pairs(value) do copy[key] = plain(item) end
   return copy
end

function M.wave(shape, phase, scale)
   local n = 1
   for _, size in ipairs(shape) do n = n * size end
   local x = torch.arange(n, {dtype = "float64"})
   return ((x * (1 + phase / 97) + phase):cos() * scale):view(shape)
end

-- Returns a state with the weights of fixtures/models.py.
local function state_of(model)
   local state, keys, tied = {}, {}, {}
   for _, pair in ipairs(model:tied_weights()) do tied[pair[1]] = pair[2] end
   for key, value in pairs(model:state_dict {names = "pytorch"}) do
      state[key] = value
      if not tied[key] then keys[#keys + 1] = key end
   end
   table.sort(keys)
   for i, key in ipairs(keys) do
      local shape = {table.unpack(state[key].shape)}
      if #shape == 1 and key:find "weight$" then
         state[key] = M.wave(shape, i - 1, 0.1) + 1
      elseif #shape == 0 then
         state[key] = torch.tensor(0.5)
      else
         state[key] = M.wave(shape, i - 1, #shape > 1 and 0.4 or 0.1)
      end
   end
   for key, source in pairs(tied) do state[key] = state[source] end
   return state
end

-- Returns the model for a row of fixtures/models.json, in evaluation mode.
function M.model(row)
   local config = plain(row.config)
   local model = torch.text.from_config(config)
   model:load_state_dict(state_of(model), {names = "pytorch"})
   return model:eval()
end

return M
