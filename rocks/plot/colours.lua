-- colours.lua - named colours, the colours that successive lines get, and colour maps, which
-- convert numbers to colours.

local args = require "tlua.args"
local suggest = require "tlua.utils.suggest"
local torch = require "tlua"

local M = {}

local names <const> = {
   black = 0x000000, white = 0xFFFFFF, red = 0xE00000, green = 0x008000, blue = 0x0000E0,
   cyan = 0x00BFBF, magenta = 0xBF00BF, yellow = 0xBFBF00, orange = 0xFFA500, purple = 0x800080,
   brown = 0x8C564B, pink = 0xE377C2, gray = 0x808080, grey = 0x808080, olive = 0x808000,
   teal = 0x008080, navy = 0x000080, lightgray = 0xD3D3D3, lightgrey = 0xD3D3D3,
   darkgray = 0x707070, gold = 0xE6B800, crimson = 0xDC143C, steelblue = 0x4682B4,
   k = 0x000000, w = 0xFFFFFF, r = 0xE00000, g = 0x008000, b = 0x0000E0, c = 0x00BFBF,
   m = 0xBF00BF, y = 0xBFBF00,
}

-- The colours C0 to C9. Successive lines get them in this order.
local cycle <const> = {
   0x1F77B4, 0xD6540E, 0x2C8C3C, 0xC8282D, 0x943CAA, 0x785032, 0xD25FA5, 0x7F7F7F, 0xA8A820,
   0x1496A0,
}

-- Maps the name of each colour map to a list of colours. They belong to equally spaced numbers from
-- 0 to 1; colours between them are interpolated.
local maps <const> = {
   viridis = {0x440154, 0x472D7B, 0x3B528B, 0x2C728E, 0x21918C, 0x28AE80, 0x5EC962, 0xADDC30,
      0xFDE725},
   magma = {0x000004, 0x1C1044, 0x4F127B, 0x812581, 0xB5367A, 0xE55064, 0xFB8761, 0xFEC287,
      0xFCFDBF},
   plasma = {0x0D0887, 0x4C02A1, 0x7E03A8, 0xA92395, 0xCC4778, 0xE56B5D, 0xF89540, 0xFDC527,
      0xF0F921},
   coolwarm = {0x3B4CC0, 0x8DB0FE, 0xDDDCDC, 0xF49A7B, 0xB40426},
   gray = {0x000000, 0xFFFFFF},
}

--- Returns the colour number i of the cycle, counted from 1.
---@param i integer
---@return integer rgb
function M.of_cycle(i)
   return cycle[(i - 1) % #cycle + 1]
end

--- Returns the colour that `value` describes, as 0xRRGGBB.
---@param who string  the function, for error messages
---@param what string  the argument
---@param value any  a name, "C0" to "C9", "#rrggbb", or {r, g, b} from 0 to 1
---@return integer rgb
function M.parse(who, what, value)
   if type(value) == "string" then
      local hex = value:match "^#(%x%x%x%x%x%x)$"
      if hex then return tonumber(hex, 16) end
      local i = value:match "^C(%d)$"
      if i then return cycle[tonumber(i) + 1] end
      local grey = value:find "^[01]%.?%d*$" and tonumber(value)
      if grey and grey <= 1 then return math.floor(grey * 255 + 0.5) * 0x010101 end
      if names[value] then return names[value] end
      torch.raise(("%s: %s: unknown colour %q%s"):format(who, what, value,
         suggest.hint(value, names)))
   end
   if type(value) == "table" and not getmetatable(value) and #value == 3 then
      local rgb = 0
      for i = 1, 3 do
         local part = value[i]
         if type(part) ~= "number" or not (part >= 0 and part <= 1) then
            args.refuse(who, what, "{r, g, b} from 0 to 1", value)
         end
         rgb = rgb << 8 | math.floor(part * 255 + 0.5)
      end
      return rgb
   end
   args.refuse(who, what, 'a colour such as "red", "C0" or "#1f77b4"', value)
end

--- Returns a function that maps a number between 0 and 1 to a colour.
---@param who string
---@param name string  viridis, magma, plasma, coolwarm or gray; the ending _r reverses the map
---@return fun(share: number): integer rgb
function M.map(who, name)
   local plain = name:gsub("_r$", "")
   local anchors = maps[plain]
   if not anchors then
      torch.raise(("%s: cmap: unknown map %q%s"):format(who, name, suggest.hint(name, maps)))
   end
   local reversed, last = plain ~= name, #anchors - 1
   local known = {}
   return function(share)
      if reversed then share = 1 - share end
      local step = math.floor(math.max(0, math.min(1, share)) * 255 + 0.5)
      if known[step] then return known[step] end
      local at = step / 255 * last
      local i = math.min(math.floor(at), last - 1)
      local f, a, b, rgb = at - i, anchors[i + 1], anchors[i + 2], 0
      for shift = 16, 0, -8 do
         local x, y = a >> shift & 255, b >> shift & 255
         rgb = rgb | math.floor(x + (y - x) * f + 0.5) << shift
      end
      known[step] = rgb
      return rgb
   end
end

return M
