-- html.lua - converts doc comments to HTML. Doc comments consist of paragraphs, items that begin
-- with an asterisk, indented code, and names in backticks. A name that has a page becomes a link.

local M = {}

local entities <const> = {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;"}

--- Escapes text for HTML.
---@param text string
---@return string
function M.escape(text) return (text:gsub('[&<>"]', entities)) end

-- Returns a name as HTML. If the name has a page, the HTML is a link to it.
local function link(name, links)
   local at = links[name] or links["torch." .. name] or links[(name:gsub("%(.*$", ""))]
   return at and ('<a href="%s">%s</a>'):format(at, M.escape(name)) or nil
end

--- Converts one line of text to HTML, including code and links.
---@param text string
---@param links table<string, string>
---@return string
function M.inline(text, links)
   local out, at = {}, 1
   local function plain(piece)
      local escaped = M.escape(piece)
      return (escaped:gsub("[%a_][%w_]*%.[%w_.]*[%w_]", function(name)
         return link(name, links)
      end))
   end
   while true do
      local from, to, code = text:find("`([^`]+)`", at)
      if not from then break end
      out[#out + 1] = plain(text:sub(at, from - 1))
      out[#out + 1] = "<code>" .. (link(code, links) or M.escape(code)) .. "</code>"
      at = to + 1
   end
   out[#out + 1] = plain(text:sub(at))
   return table.concat(out)
end

--- Converts the lines of a doc comment to HTML.
---@param lines string[]
---@param links table<string, string>
---@return string
function M.text(lines, links)
   local out, kind, block = {}, nil, {}
   local function close()
      if kind == "code" then
         local indent = block[1]:match "^ *"
         for i, line in ipairs(block) do block[i] = line:gsub("^" .. indent, "") end
         out[#out + 1] = "<pre><code>" .. M.escape(table.concat(block, "\n")) .. "</code></pre>"
      elseif kind == "item" then
         out[#out + 1] = "<ul><li>" .. M.inline(table.concat(block, " "), links) .. "</li></ul>"
      elseif kind then
         out[#out + 1] = "<p>" .. M.inline(table.concat(block, " "), links) .. "</p>"
      end
      kind, block = nil, {}
   end
   for _, line in ipairs(lines) do
      if line == "" then
         if kind ~= "code" then close() end
      elseif line:find "^%* " then
         close()
         kind, block = "item", {line:sub(3)}
      elseif line:find "^%s%s" and kind ~= "item" then
         if kind ~= "code" then close() end
         kind = "code"
         block[#block + 1] = line
      else
         if kind == "code" then close() end
         kind = kind or "text"
         block[#block + 1] = line:gsub("^%s+", "")
      end
   end
   close()
   return (table.concat(out, "\n"):gsub("</ul>\n<ul>", "\n"))
end

return M
