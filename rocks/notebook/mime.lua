-- mime.lua - converts values to MIME bundles. A MIME bundle has the value in all forms in which a
-- notebook can show it.

local torch = require "tlua"
local class = require "tlua.class"
local display = require "tlua.repl.display"
local html = require "tlua.notebook.html"
local messages = require "tlua.notebook.messages"
local packages = require "tlua.packages"
local png = require "tlua.io.png"

-- The functions are copied here, because cells may change the table torch.
local type_of, is_tensor, raise, Module = torch.type, torch.is_tensor, torch.raise, torch.nn.Module

local M = {}

--- Returns whether a tensor is shown as an image. Its shape must be (1, H, W) or (3, H, W) with a
--- height and width of at least eight pixels. Its elements must be bytes, or floating-point numbers
--- from 0 to 1.
---@param tensor Tensor
---@return boolean
function M.is_image(tensor)
   if tensor:dim() ~= 3 or tensor.layout ~= "strided" or tensor.is_meta then return false end
   local channels, height, width = table.unpack(tensor.shape)
   if channels ~= 1 and channels ~= 3 or height < 8 or width < 8 or height * width > 1 << 22 then
      return false
   end
   if tensor.dtype == "uint8" then return true end
   if not tensor:is_floating_point() then return false end
   local values = tensor:detach()
   return values:min():item() >= 0 and values:max():item() <= 1
end

--- Encodes an image as PNG, and returns the bytes. Small images are enlarged.
---@param tensor Tensor  (H, W), (C, H, W), (N, H, W) or (N, C, H, W)
---@return string
function M.image(tensor)
   local height, width = tensor:size(-2), tensor:size(-1)
   local n = tensor:dim() == 4 and tensor:size(1)
      or tensor:dim() == 3 and tensor:size(1) ~= 1 and tensor:size(1) ~= 3 and tensor:size(1) or 1
   local wide = math.ceil(n ^ 0.5) * (width + 1)
   local scale = math.max(1, math.min(160 // math.max(height, width, 1), 600 // wide))
   local figure = torch.utils.plot.image(tensor, {scale = scale})
   return figure.kind.png(figure, true)
end

-- Returns the MIME bundle of a figure. A figure that shows images is encoded as PNG, which is
-- smaller than SVG.
local function figure_bundle(figure)
   if figure.pixels then return {["image/png"] = png.base64(figure.kind.png(figure, true))} end
   return {["image/svg+xml"] = figure:svg()}
end

local function rich(value)
   if is_tensor(value) then
      if packages.has "tlua.plot" and M.is_image(value) then
         return {["image/png"] = png.base64(M.image(value))}
      end
      return {["text/html"] = html.tensor(value)}
   end
   if class.isinstance(value, Module) then return {["text/html"] = html.module(value)} end
   local class_name = type_of(value)
   if class_name == "utils.plot.Axes" then return figure_bundle(value.figure) end
   if class_name == "utils.plot.Figure" or class_name == "utils.plot.Subplots" then
      return figure_bundle(value)
   end
   local meta = debug.getmetatable(value)
   local own = type(meta) == "table" and rawget(meta, "__mime")
   if own then
      local call = debug.getmetatable(own)
      if type(own) ~= "function" and not (type(call) == "table" and call.__call) then
         raise("display: __mime: expected a function, got a " .. type_of(own))
      end
      local bundle = own(value)
      if type(bundle) ~= "table" then
         raise("display: __mime: expected a table of texts by MIME type, got a "
            .. type_of(bundle))
      end
      for kind, text in pairs(bundle) do
         if type(kind) ~= "string" or type(text) ~= "string" then
            raise("display: __mime: expected a table of texts by MIME type")
         end
      end
      return table.move({}, 1, 0, 1, bundle)
   end
   return {}
end

--- Returns a value's MIME bundle, a table that maps MIME types to texts. It always has text/plain.
--- For tensors, modules, figures and values with the metamethod __mime, it also has richer types.
---@param value any
---@param text? string  the text/plain form, if it is already known
---@return table<string, string>
function M.bundle(value, text)
   local bundle = {}
   for kind, content in pairs(rich(value)) do bundle[kind] = messages.clean(content) end
   if not bundle["text/plain"] then
      bundle["text/plain"] = messages.clean(text or display.value({width = 80}, value))
   end
   return bundle
end

return M
