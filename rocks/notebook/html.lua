-- html.lua - converts tensors to HTML tables, and models to HTML trees.

local torch = require "tlua"

local M = {}

local most_rows <const>, most_columns <const> = 20, 12

--- Escapes a text for HTML.
---@param text string
---@return string
function M.escape(text)
   return (text:gsub("[&<>\"]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;",
      ["\""] = "&quot;"}))
end

-- Returns which positions out of n are shown. If n is greater than `most`, these are the first and
-- the last positions, with a 0 between them for the gap.
local function positions(n, most)
   local list = {}
   if n <= most then
      for i = 1, n do list[i] = i end
      return list
   end
   local half = most // 2
   for i = 1, half do list[i] = i end
   list[half + 1] = 0
   for i = n - half + 1, n do list[#list + 1] = i end
   return list
end

local function cell(value)
   if math.type(value) == "float" then
      return value == value // 1 and math.abs(value) < 1e6 and ("%.1f"):format(value)
         or ("%.4g"):format(value)
   end
   return tostring(value)
end

-- Returns a caption with the shape and the dtype, and with the device if it is not the CPU.
local function caption(tensor)
   local sizes = {}
   for i, size in ipairs(tensor.shape) do sizes[i] = tostring(size) end
   local device = tostring(tensor.device)
   return ("(%s) %s%s"):format(table.concat(sizes, ", "), tensor.dtype,
      device == "cpu" and "" or " " .. device)
end

--- Returns a tensor of one or two dimensions as an HTML table. Only the corners of a large tensor
--- are shown. Returns nil for other tensors, and for sparse, quantized and meta tensors.
---@param tensor Tensor
---@return string?
function M.tensor(tensor)
   local n = tensor:dim()
   if n < 1 or n > 2 or tensor:numel() == 0 then return nil end
   if tensor.layout ~= "strided" or tensor.is_quantized or tensor.is_meta then return nil end
   local matrix = tensor:detach()
   if n == 1 then matrix = matrix:unsqueeze(1) end
   local rows = positions(matrix:size(1), most_rows)
   local columns = positions(matrix:size(2), most_columns)
   local out = {'<table border="1" class="dataframe"><caption>' .. M.escape(caption(tensor))
      .. "</caption><thead><tr><th></th>"}
   local function add(form, ...) out[#out + 1] = form:format(...) end
   for _, column in ipairs(columns) do
      add("<th>%s</th>", column == 0 and "…" or column)
   end
   add "</tr></thead><tbody>"
   for _, row in ipairs(rows) do
      add("<tr><th>%s</th>", row == 0 and "⋮" or n == 1 and "" or row)
      for _, column in ipairs(columns) do
         if row == 0 or column == 0 then
            add("<td>%s</td>", row == 0 and "⋮" or "…")
         else
            add('<td style="text-align:right">%s</td>',
               M.escape(cell(matrix[{row, column}]:item())))
         end
      end
      add "</tr>"
   end
   add "</tbody></table>"
   return table.concat(out)
end

local function with_commas(n)
   local text = tostring(n)
   repeat
      local count
      text, count = text:gsub("^(%d+)(%d%d%d)", "%1,%2")
   until count == 0
   return text
end

local function count_parameters(module)
   local sum = 0
   for _, parameter in ipairs(module:parameters()) do sum = sum + parameter:numel() end
   return sum
end

local function add_module(out, name, module, depth, open)
   local title = M.escape(torch.type(module):match "[^.]*$")
   local head = ("%s<b>%s</b>"):format(name and M.escape(tostring(name)) .. ": " or "", title)
   local ok, n = pcall(count_parameters, module)
   local tail = ok and n > 0 and (' <span style="color:#777">%s parameter%s</span>'):format(
      with_commas(n), n == 1 and "" or "s") or ""
   local children = {}
   for key, child in module:named_children() do children[#children + 1] = {key, child} end
   if #children == 0 or open[module] or depth > 30 then
      local extra = module:extra_repr()
      out[#out + 1] = ('<div style="margin-left:1.2em">%s(%s)%s</div>'):format(head,
         M.escape(extra), tail)
      return
   end
   open[module] = true
   out[#out + 1] = ('<details%s style="margin-left:%s"><summary>%s%s</summary>'):format(
      depth < 2 and " open" or "", depth == 0 and "0" or "1.2em", head, tail)
   for _, pair in ipairs(children) do add_module(out, pair[1], pair[2], depth + 1, open) end
   out[#out + 1] = "</details>"
   open[module] = nil
end

--- Returns a module as a foldable HTML tree with the number of parameters of each part.
---@param module nn.Module
---@return string
function M.module(module)
   local out = {'<div style="font-family:monospace">'}
   add_module(out, nil, module, 0, {})
   out[#out + 1] = "</div>"
   return table.concat(out)
end

return M
