-- site.lua - writes the reference as static pages: one page for each section of the manual, for
-- each class, and for each guide. The search reads an index file. All pages are in one folder and
-- use relative links, so they work from a disk and from any server.

local torch = require "tlua"
local comments = require "tlua.repl.comments"
local families = require "families"
local c_api = require "c_api"
local guides = require "guides"
local html = require "html"

local M = {}

local escape = html.escape

local function write(path, text)
   local file <close> = assert(io.open(path, "wb"))
   assert(file:write(text))
end

local function read(path)
   local file <close> = assert(io.open(path, "rb"))
   return file:read "a"
end

-- Shortens "torch.nn.Linear" to its usual name "nn.Linear". Functions directly in torch keep the
-- prefix.
local function short(path)
   return path:find "^torch%.[^.]+%." and (path:gsub("^torch%.", "")) or path
end

local function anchor_of(path) return (path:gsub("[^%w_.]", "-")) end

local function sentence(declared)
   return comments.first_sentence(table.concat(declared.text, " "))
end

-- Returns two tables. The first maps each name to its location, which is a page or page#anchor. The
-- second has the rows of the search index.
local function index(sections)
   local links, rows = {}, {}
   local function add(path, at, declared)
      links[path] = at
      links[path:gsub("^torch%.", "")] = at
      rows[#rows + 1] = {short(path), at, sentence(declared)}
   end
   for _, section in ipairs(sections) do
      section.page = section.key .. ".html"
      if section.module then add(section.key, section.page, section.module) end
      for _, declared in ipairs(section.entries) do
         local at = declared.methods and short(declared.path) .. ".html"
            or section.page .. "#" .. anchor_of(declared.path)
         if declared.methods and at == section.page then at = "class-" .. at end
         declared.at = at
         add(declared.path, at, declared)
         if declared.name and declared.methods then links[declared.name] = at end
         for _, alias in ipairs(declared.aliases or {}) do
            links[alias] = links[alias] or at
            links[alias:gsub("^torch%.", "")] = links[alias]
            local about = "Another name of " .. short(declared.path) .. "."
            rows[#rows + 1] = {short(alias), at, about}
         end
         for _, method in ipairs(declared.methods or {}) do
            if not method.missing then
               add(method.path, at .. "#" .. anchor_of(method.name), method)
            end
         end
      end
   end
   return links, rows
end

-- Contents ----------------------------------------------------------------------------------------

local function rows_of(params, links)
   local rows = {}
   for _, p in ipairs(params) do
      local default, words = p.default, html.inline(p.text or "", links)
      if default ~= nil and type(default) ~= "string" then
         default = require "declarations".show(default)
      end
      local shown = default ~= nil and default ~= "nil"
      rows[#rows + 1] = ("<tr><td><code>%s</code></td><td><code>%s</code></td><td>%s%s</td></tr>")
         :format(escape(p.name), escape(p.type .. (p.optional and default == nil and "?" or "")),
            shown and "<code>= " .. escape(default) .. "</code>" .. (words ~= "" and ", " or "")
               or "", words)
   end
   return rows
end

local function table_of(title, rows)
   if #rows == 0 then return "" end
   return ("<table><tr><th colspan=\"3\">%s</th></tr>\n%s</table>\n"):format(title,
      table.concat(rows, "\n"))
end

local function result_rows(returns, links)
   local rows = {}
   for _, r in ipairs(returns) do
      rows[#rows + 1] = ("<tr><td><code>%s</code></td><td>%s</td><td>%s</td></tr>"):format(
         escape(r.type), escape(r.name or ""), html.inline(r.text or "", links))
   end
   return rows
end

local function body(declared, links)
   local out = {}
   if declared.calls[1] then
      out[#out + 1] = ("<pre class=\"call\"><code>%s</code></pre>"):format(
         escape(table.concat(declared.calls, "\n")))
   end
   out[#out + 1] = html.text(declared.text, links)
   local params = {}
   for i, form in ipairs(declared.forms or {{params = declared.params}}) do
      if i == 1 then params = form.params end
   end
   local rows = rows_of(params, links)
   if declared.about_options then
      local row = {name = "options", optional = true, type = "table", text = declared.about_options}
      rows[#rows + 1] = rows_of({row}, links)[1]
   end
   out[#out + 1] = table_of("Parameters", rows)
   out[#out + 1] = table_of("Returns", result_rows(declared.returns, links))
   out[#out + 1] = table_of("Fields", rows_of(declared.fields or {}, links))
   if declared.see then
      out[#out + 1] = "<p>See also " .. html.inline("`" .. short(declared.see) .. "`", links)
         .. ".</p>"
   end
   if declared.aliases and declared.aliases[1] then
      local others = {}
      for i, alias in ipairs(declared.aliases) do
         others[i] = "<code>" .. escape(short(alias)) .. "</code>"
      end
      out[#out + 1] = "<p class=\"aliases\">Also " .. table.concat(others, ", ") .. "</p>"
   end
   if declared.file then
      out[#out + 1] = ("<p class=\"source\">%s, line %d</p>"):format(escape(declared.file),
         declared.line or 1)
   end
   return table.concat(out, "\n")
end

local function class_page(class, links)
   local out = {("<h1>%s</h1>"):format(escape(short(class.path)))}
   if class.parent then
      out[1] = out[1] .. "<p class=\"aliases\">A class derived from "
         .. html.inline("`" .. class.parent .. "`", links) .. "</p>"
   end
   out[#out + 1] = body(class, links)
   local has_heading
   for _, method in ipairs(class.methods) do
      if not method.missing then
         if not has_heading then out[#out + 1] = "<h2>Methods</h2>" end
         has_heading = true
         out[#out + 1] = ("<section id=\"%s\"><h3>%s</h3>\n%s</section>"):format(
            anchor_of(method.name), escape(method.name), body(method, links))
      end
   end
   return table.concat(out, "\n")
end

local function section_page(section, links)
   local out = {("<h1>%s</h1>"):format(escape(section.title))}
   if section.module then out[2] = html.text(section.module.text, links) end
   local classes, others = {}, {}
   for _, declared in ipairs(section.entries) do
      if declared.methods then
         classes[#classes + 1] = ('<tr><td><a href="%s">%s</a></td><td>%s</td></tr>'):format(
            declared.at, escape(short(declared.path)), html.inline(sentence(declared), links))
      else
         others[#others + 1] = ("<section id=\"%s\"><h3>%s</h3>\n%s</section>"):format(
            anchor_of(declared.path), escape(short(declared.path)), body(declared, links))
      end
   end
   if classes[1] then
      out[#out + 1] = "<h2>Classes</h2>\n<table>" .. table.concat(classes, "\n") .. "</table>"
   end
   if others[1] then
      local contents = {}
      for _, declared in ipairs(section.entries) do
         if not declared.methods then
            contents[#contents + 1] = ('<tr><td><a href="#%s">%s</a></td><td>%s</td></tr>'):format(
               anchor_of(declared.path), escape(short(declared.path)),
               html.inline(sentence(declared), links))
         end
      end
      out[#out + 1] = "<h2>Functions and values</h2>\n<table>" .. table.concat(contents, "\n")
         .. "</table>\n" .. table.concat(others, "\n")
   end
   return table.concat(out, "\n")
end

-- Pages -------------------------------------------------------------------------------------------

local frame <const> = [[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<link rel="stylesheet" href="site.css">
</head>
<body>
<header><div class="bar">
<button class="menu" type="button">Contents</button>
<a class="name" href="index.html">tlua <small>%s</small></a>
<div class="search"><input id="search" type="search" placeholder="Search ( / )"
  autocomplete="off" aria-label="Search"><ul id="found"></ul></div>
</div></header>
<div class="page">
<nav data-here="%s"><a href="contents.html">Contents</a></nav>
<main class="%s">
%s
</main>
</div>
<script src="index.js"></script>
<script src="site.js"></script>
</body>
</html>
]]

-- Returns the rows of the table of contents. The contents page and the menu beside every page show
-- these rows.
local function contents(sections, list)
   local rows = {}
   for _, guide in ipairs(list) do rows[#rows + 1] = {guide.group, guide.page, guide.title} end
   for _, section in ipairs(sections) do
      local is_torch = section.title:find "^torch: " or section.key == "torch.Tensor"
      local heading = is_torch and "Tensors" or "Modules"
      rows[#rows + 1] = {heading, section.page, (section.title:gsub("^torch: ", ""))}
   end
   return rows
end

local function contents_page(rows)
   local out, heading = {"<h1>Contents</h1>"}, nil
   for _, row in ipairs(rows) do
      if row[1] ~= heading then
         if heading then out[#out + 1] = "</ul>" end
         out[#out + 1] = ('<h2>%s</h2>\n<ul class="columns">'):format(row[1])
      end
      heading = row[1]
      out[#out + 1] = ('<li><a href="%s">%s</a></li>'):format(row[2], escape(row[3]))
   end
   return table.concat(out, "\n") .. "</ul>"
end

local function js_string(text)
   return '"' .. text:gsub('[\\"]', "\\%0"):gsub("[\n\r]", " "):gsub("<", "\\u003c") .. '"'
end

local function js_rows(name, rows)
   local out = {}
   for i, row in ipairs(rows) do
      out[i] = ("[%s,%s,%s]"):format(js_string(row[1]), js_string(row[2]), js_string(row[3]))
   end
   return "const " .. name .. " = [\n" .. table.concat(out, ",\n") .. "\n];\n"
end

--- Writes the site into a folder.
---@param out string
---@param root string  the root of the repository
---@param all table[]  declarations
function M.write(out, root, all)
   local sections, list = families.sections(all), guides.list(root)
   local links, rows = index(sections)
   local c_page, c_rows = c_api.html(root)
   table.insert(list, 2, c_api.guide)
   table.move(c_rows, 1, #c_rows, #rows + 1, rows)
   local function page(name, title, section_name, text, class)
      write(out .. "/" .. name, frame:format(escape(title), torch.__version__, section_name,
         class or "", text))
   end
   for _, section in ipairs(sections) do
      page(section.page, section.title .. " - tlua", section.page, section_page(section, links))
      for _, declared in ipairs(section.entries) do
         if declared.methods then
            page(declared.at, short(declared.path) .. " - tlua", section.page,
               class_page(declared, links))
         end
      end
   end
   for _, guide in ipairs(list) do
      local text = guide == c_api.guide and c_page or guides.html(root, guide, list, links)
      page(guide.page, guide.title, guide.page, text, "guide")
   end
   local menu = contents(sections, list)
   page("contents.html", "Contents - tlua", "contents.html", contents_page(menu))
   for _, guide in ipairs(list) do rows[#rows + 1] = {guide.title, guide.page, "A guide."} end
   write(out .. "/index.js", js_rows("names", rows) .. js_rows("contents", menu))
   for _, name in ipairs {"site.css", "site.js"} do
      write(out .. "/" .. name, read(root .. "/src/docs/" .. name))
   end
end

return M
