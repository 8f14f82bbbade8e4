-- gnuplot.lua - Torch7's package gnuplot on top of tlua's plots. Figures are printed in the
-- terminal, or written to the file that was named by a call of pngfigure or svgfigure.

local tlua = require "tlua"
local types = require "tlua.torch7.types"

local M = {}

local file, title

local function list(x) return types.is_tensor(x) and x:view(-1):totable() or x end

local function show(figure)
   if file then figure:save(file) else print(figure) end
   return figure
end

-- Parses a curve {[name,] [x,] y [, style]}. A matrix with two columns contains x and y.
local function curve_of(entry, i)
   local name, tensors = tostring(i), {}
   for k, value in ipairs(entry) do
      if types.is_tensor(value) then
         tensors[#tensors + 1] = value
      elseif k == 1 and type(value) == "string" then
         name = value
      end
   end
   local x, y = tensors[1], tensors[2]
   if x == nil then tlua.raise("gnuplot.plot: expected a tensor for the curve " .. name) end
   if y == nil and x:dim() == 2 and x:size(2) == 2 then x, y = x:select(2, 1), x:select(2, 2) end
   if y == nil then return name, list(x) end
   return name, {x = list(x:contiguous()), y = list(y:contiguous())}
end

--- Draws a curve, given as ([name,] [x,] y [, style]), or several curves, each given as a table.
function M.plot(...)
   local curves, entries = {}, {...}
   if type(entries[1]) ~= "table" then entries = {entries} end
   for i, entry in ipairs(entries) do
      if type(entry) == "table" then
         if type(entry[1]) == "table" then -- several curves are given as tables
            return M.plot(table.unpack(entry))
         end
         local name, values = curve_of(entry, i)
         curves[name] = values
      end
   end
   return show(tlua.utils.plot.curves(curves, {title = title}))
end

M.bar = M.plot

for _, name in ipairs {"splot", "scatter3"} do
   M[name] = function()
      tlua.raise(("gnuplot.%s: plots in three dimensions are not available; use imagesc"):format(
         name))
   end
end

local function check_tensor(name, x)
   if not types.is_tensor(x) then
      tlua.raise(("gnuplot.%s: expected a tensor, got %s"):format(name, type(x)))
   end
end

function M.imagesc(x)
   check_tensor("imagesc", x)
   return show(tlua.utils.plot.image(types.untag(x:float())))
end
function M.hist(x, bins)
   check_tensor("hist", x)
   return M.plot(x:view(-1).histc(x, bins or 30))
end
function M.title(text) title = text end
function M.figure() file, title = nil, nil end
function M.pngfigure(path) file = path end
M.svgfigure, M.epsfigure, M.pdffigure = M.pngfigure, M.pngfigure, M.pngfigure
function M.plotflush() end
function M.close() file, title = nil, nil end
M.closeall = M.close
--- Sets the file to which the next figures are written.
M.figprint = M.pngfigure
for _, name in ipairs {"xlabel", "ylabel", "zlabel", "axis", "grid", "movelegend", "raw",
   "setterm"} do M[name] = function() end end

return M
