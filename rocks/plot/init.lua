-- init.lua - torch.utils.plot: draws curves and images, in the terminal and as files:
--
--    local plot = torch.utils.plot
--    print(plot.curves({train = losses, test = test_losses}, {title = "loss", log_y = true}))
--    plot.image(digits, {save = "digits.png"})              -- (N, H, W): a grid
--
-- Both functions return a figure. Printing it shows text. `figure:save(path)` writes SVG or PNG,
-- according to the file extension. The text is coloured on terminals, but not in files and pipes.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"
local replace_file = require "tlua.io.replace"
local drawable = require "tlua.plot.values"

local M = {}

--- A figure, which is shown in a terminal as text and can be saved as an image.
---
---     local figure = torch.utils.plot.curves({1, 4, 9}, {title = "squares"})
---     print(figure:text(false):find "squares" ~= nil, #figure:png() > 100)
---     --> true	true
---@class utils.plot.Figure
local Figure = class.class("utils.plot.Figure")

--- Returns the figure as text.
---@param coloured? boolean  whether to use colours; the default is true if stdout is a terminal
---@return string
function Figure:text(coloured)
   if coloured == nil then coloured = torch.io.is_terminal(io.stdout) end
   return self.kind.text(self, coloured)
end

function Figure:__tostring()
   return self:text()
end

--- Returns the figure as the bytes of a PNG file.
---@return string
function Figure:png()
   return self.kind.png(self)
end

--- Returns the figure as an SVG document.
---@return string
function Figure:svg()
   return self.kind.svg(self)
end

--- Writes the figure to a file. If this fails, an existing file at the path is not changed.
---@param path string  a path that ends with .svg or .png
---@return utils.plot.Figure self
function Figure:save(path)
   local format = type(path) == "string" and path:lower():match "%.(%l+)$"
   if format ~= "svg" and format ~= "png" then
      args.refuse("utils.plot", "save", "a path that ends in .svg or .png", path)
   end
   local content = self.kind[format](self)
   local failure = replace_file(path, function(file)
      local ok, why = file:write(content)
      if not ok then return why end
   end)
   if failure then torch.raise(("utils.plot: %s: %s"):format(path, failure)) end
   return self
end

local function figure(kind, fields)
   local made = Figure()
   for name, value in pairs(fields) do made[name] = value end
   made.kind = require("tlua.plot." .. kind)
   if made.save_as then made:save(made.save_as) end
   return made
end

local function check_size(title, a, name, least, most)
   if a[name] < least or a[name] > most then
      args.refuse(title, name, ("an integer from %d to %d"):format(least, most), a[name])
   end
end

-- Curves --------------------------------------------------------------------------------------

-- Raises an error if a table has a key that is not in the set `known`.
local function check_keys(what, value, known, expected)
   for key in pairs(value) do
      if not known[key] then
         torch.raise(("utils.plot.curves: %s: expected %s, got a table with the key %s"):format(
            what, expected, tostring(key)))
      end
   end
end

local function line(name, value)
   local what = name or "values"
   local x, y
   if type(value) == "table" and not getmetatable(value) and value.y then
      check_keys(what, value, {x = true, y = true}, "a curve {x = ..., y = ...}")
      y = drawable.list("utils.plot.curves", what .. ".y", value.y)
      x = value.x and drawable.list("utils.plot.curves", what .. ".x", value.x)
      if x and #x ~= #y then
         torch.raise(("utils.plot.curves: %s: expected as many x as y, %d, got %d"):format(
            what, #y, #x))
      end
   else
      y = drawable.list("utils.plot.curves", what, value)
   end
   if not x then
      x = {}
      for i = 1, #y do x[i] = i end
   end
   return {name = name, x = x, y = y}
end

local take_curves = args.signature [[utils.plot.curves(values: any, title: string?,
   log_x: boolean = false, log_y: boolean = false, columns: count = 60, lines: count = 12,
   width: count = 640, height: count = 400, save: string?)]]

--- Draws curves. The horizontal positions are 1, 2, 3 and so on. A curve {x = ..., y = ...} has its
--- own horizontal positions. A curve has gaps at NaN and, on a logarithmic axis, at values that are
--- not above zero.
---@param values number[]|Tensor|table<string, any>  one curve, or several curves by name
---@param options? {title: string, log_x: boolean, log_y: boolean, columns: integer, lines: integer,
--- width: integer, height: integer, save: string}  columns and lines of the text, up to 1000; width
--- and height of files in pixels, up to 6000; and the path of a file to write
---@return utils.plot.Figure
function M.curves(...)
   local a = take_curves(...)
   check_size("utils.plot.curves", a, "columns", 10, 1000)
   check_size("utils.plot.curves", a, "lines", 3, 1000)
   check_size("utils.plot.curves", a, "width", 200, 6000)
   check_size("utils.plot.curves", a, "height", 120, 6000)
   local series, values = {}, a.values
   local plain = type(values) == "table" and not getmetatable(values)
   if plain and values[1] == nil and values.y == nil and next(values) ~= nil then
      local names = {}
      for name in pairs(values) do
         if type(name) ~= "string" and type(name) ~= "number" then
            args.refuse("utils.plot.curves", "values", "names of curves as the keys", name)
         end
         names[#names + 1] = name
      end
      table.sort(names, function(one, other)
         if type(one) == type(other) then return one < other end
         return type(one) == "number"
      end)
      for i, name in ipairs(names) do series[i] = line(tostring(name), values[name]) end
   else
      for key in pairs(plain and values.y == nil and values or {}) do
         if type(key) ~= "number" then
            args.refuse("utils.plot.curves", "values", "one curve, or curves by name", values)
         end
      end
      series[1] = line(nil, values)
   end
   return figure("curves", {
      series = series, title = a.title, log_x = a.log_x, log_y = a.log_y, columns = a.columns,
      lines = a.lines, width = a.width, height = a.height, save_as = a.save,
   })
end

-- Images --------------------------------------------------------------------------------------

local take_image = args.signature [[utils.plot.image(tensor: tensor, title: string?,
   range: numbers?, columns: count?, gap: count = 1, scale: count = 8, save: string?)]]

-- Converts an image or several images of any accepted shape to the shape (N, C, H, W).
local function as_batch(tensor)
   local n = tensor:dim()
   local function channels(dim) return tensor:size(dim) == 1 or tensor:size(dim) == 3 end
   if n == 2 then return tensor:view(1, 1, tensor:size(1), tensor:size(2)) end
   if n == 3 and channels(1) then return tensor:unsqueeze(1) end
   if n == 3 then return tensor:unsqueeze(2) end
   if n == 4 and channels(2) then return tensor end
   args.refuse("utils.plot.image", "tensor",
      "(H, W), (C, H, W), (N, H, W) or (N, C, H, W) with 1 or 3 channels", tensor)
end

-- Arranges the images of a batch in one large image (C, H, W), as a grid with gaps between the
-- images.
local function grid(batch, columns, gap)
   local n, channels, height, width = table.unpack(batch.shape)
   columns = math.min(columns or math.ceil(n ^ 0.5), n)
   local rows = (n + columns - 1) // columns
   local whole = torch.zeros(channels, rows * (height + gap) - gap, columns * (width + gap) - gap)
   for i = 0, n - 1 do
      local y, x = i // columns * (height + gap) + 1, i % columns * (width + gap) + 1
      whole[{{}, {y, y + height - 1}, {x, x + width - 1}}] = batch[i + 1]
   end
   return whole
end

--- Draws an image. A grey image is (H, W) or (1, H, W), and a coloured image is (3, H, W). Several
--- images, (N, H, W) or (N, C, H, W), are drawn as a grid. The shape (3, H, W) always stands for
--- one coloured image.
---@param tensor Tensor
---@param options? {title: string, range: number[], columns: integer, gap: integer, scale: integer,
--- save: string}  range: the values of black and white, {0, 1} by default, {0, 255} for integers;
--- columns: columns of the grid; gap: pixels between images, up to 1000; scale: enlargement of
--- pixels in files, up to 1000
---@return utils.plot.Figure
function M.image(...)
   local a = take_image(...)
   check_size("utils.plot.image", a, "scale", 1, 1000)
   check_size("utils.plot.image", a, "gap", 0, 1000)
   if a.tensor:is_complex() or a.tensor.layout ~= "strided" or a.tensor.is_quantized then
      args.refuse("utils.plot.image", "tensor", "a dense tensor of real numbers", a.tensor)
   end
   local tensor = a.tensor:detach():cpu()
   local low, high = 0, tensor:is_floating_point() and 1 or 255
   if a.range then low, high = a.range[1], a.range[2] end
   local is_range = type(low) == "number" and type(high) == "number" and drawable.finite(low)
      and drawable.finite(high) and low < high and (not a.range or #a.range == 2)
   if not is_range then
      args.refuse("utils.plot.image", "range", "two finite numbers, the lower one first", a.range)
   end
   if a.columns and a.columns < 1 then
      args.refuse("utils.plot.image", "columns", "an integer of at least 1", a.columns)
   end
   local batch = as_batch(tensor:float())
   if batch:numel() == 0 then
      args.refuse("utils.plot.image", "tensor", "one with at least one pixel", a.tensor)
   end
   local whole = grid(batch, a.columns, a.gap)
   whole = ((whole - low) / (high - low)):clamp(0, 1):nan_to_num():mul(255):round():long()
   local planes, pixels = whole:tolist(), {}
   for y = 1, #planes[1] do
      pixels[y] = {}
      for x = 1, #planes[1][1] do
         local r = planes[1][y][x]
         pixels[y][x] = {r, planes[2] and planes[2][y][x] or r, planes[3] and planes[3][y][x] or r}
      end
   end
   return figure("images", {
      pixels = pixels, grey = #planes == 1, title = a.title, scale = a.scale, save_as = a.save,
   })
end

-- Several drawings ----------------------------------------------------------------------------

--- A figure with one or more drawings; utils.plot.subplots creates it. Printing it only lists its
--- contents. save and savefig write it to a file, and notebooks show it.
---
---     local figure, axes = torch.utils.plot.subplots(1, 2)
---     axes[1]:plot {1, 2, 3}
---     axes[2]:bar({"a", "b"}, {3, 4})
---     print(#figure:svg() > 1000)
---     --> true
---@class utils.plot.Subplots : utils.plot.Figure
local Subplots = class.class("utils.plot.Subplots", Figure)

--- Sets the title above all drawings.
---@param text string  the title
---@return utils.plot.Subplots self
function Subplots:suptitle(text)
   if type(text) ~= "string" then
      args.refuse("utils.plot.Subplots.suptitle", "text", "a string", text)
   end
   self.heading = text
   return self
end

--- Writes the figure to a file, as `save` does.
---@param path string  a path that ends with .svg or .png
---@return utils.plot.Subplots self
function Subplots:savefig(path, ...)
   if select("#", ...) > 0 then
      torch.raise(("utils.plot.Subplots.savefig: expected no further argument, got %s; figsize of "
         .. "subplots is the size"):format(args.describe((...))))
   end
   return self:save(path)
end

local take_colorbar = args.signature [[utils.plot.Subplots.colorbar(mappable: any,
   label: string = '')]]

--- Draws a colour bar beside axes. It shows which numbers the colours of an image, of contours or
--- of points stand for.
---@param mappable table  the result of imshow, contour, contourf, scatter or scatter3D
---@param options? {label: string}  label: the text beside the bar
---@return utils.plot.Subplots self
function Subplots:colorbar(mappable, ...)
   local a = take_colorbar({mappable}, ...)
   local artist = a.mappable[1]
   if type(artist) ~= "table" or not artist.map or not artist.axes
      or artist.axes.figure ~= self then
      args.refuse("utils.plot.Subplots.colorbar", "mappable",
         "the result of imshow, contour, contourf or scatter (with numbers as c) in this figure",
         artist)
   end
   self.colorbars[artist.axes] = {artist = artist, label = a.label}
   return self
end

local take_subplots = args.signature [[utils.plot.subplots(nrows: count = 1, ncols: count = 1,
   figsize: numbers?, projection: string?)]]

--- Creates a figure with a grid of drawings.
---@param nrows? integer  1 by default
---@param ncols? integer  1 by default
---@param options? {nrows: integer, ncols: integer, figsize: number[], projection: string}
--- figsize: width and height in hundreds of pixels, {6.4, 4.8} by default; projection: "3d" for
--- drawings in space
---@return utils.plot.Subplots figure
---@return utils.plot.Axes|utils.plot.Axes[] axes  the axes if there is one drawing, a list of axes
--- for one row or column, otherwise a list of rows
function M.subplots(...)
   local a = take_subplots(...)
   for _, name in ipairs {"nrows", "ncols"} do
      if a[name] < 1 or a[name] > 20 then
         args.refuse("utils.plot.subplots", name, "an integer from 1 to 20", a[name])
      end
   end
   if a.projection and a.projection ~= "3d" then
      args.refuse("utils.plot.subplots", "projection", '"3d"', a.projection)
   end
   local size = a.figsize or {6.4, 4.8}
   for i = 1, 2 do
      if #size ~= 2 or not (size[i] >= 1 and size[i] <= 60) then
         args.refuse("utils.plot.subplots", "figsize", "{width, height}, each from 1 to 60", size)
      end
   end
   local Axes = require "tlua.plot.Axes"
   local made = Subplots()
   made.kind = require "tlua.plot.panels"
   made.rows, made.columns, made.heading, made.colorbars = a.nrows, a.ncols, "", {}
   made.width, made.height = math.floor(size[1] * 100), math.floor(size[2] * 100)
   made.axes = {}
   for i = 1, a.nrows * a.ncols do made.axes[i] = Axes(made, a.projection) end
   if #made.axes == 1 then return made, made.axes[1] end
   local list = {}
   for i, ax in ipairs(made.axes) do
      if a.nrows == 1 or a.ncols == 1 then
         list[i] = ax
      else
         local row = (i - 1) // a.ncols + 1
         list[row] = list[row] or {}
         table.insert(list[row], ax)
      end
   end
   return made, list
end

return M
