-- report.lua - writes HTML pages that show a profile, one self-contained file each.

local json = require "tlua.utils.json"
local page = require "tlua.profiler.page"
local text = require "tlua.profiler.text"
local timeline = require "tlua.profiler.timeline"

local M = {}

local MOST <const> = 200000 -- number of events on a timeline; the shortest ones are omitted

local function escape(value)
   return (value:gsub("[&<>]", {["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;"}))
end

-- Returns a value as JSON, in which "</" is escaped so that it cannot end the script element around
-- it.
local function script(value) return (json.encode(value):gsub("</", "<\\/")) end

-- Returns a list of names, and a function that returns a name's index in the list, from 0, and
-- adds the name if it is new.
local function names()
   local list, number = {}, {}
   return list, function(name)
      local n = number[name]
      if not n then
         list[#list + 1] = name
         n = #list - 1
         number[name] = n
      end
      return n
   end
end

-- Returns a tree of spans, in which equal stacks of names share a node. A node is {number of the
-- name, ns in the span itself, number of calls, {name = child}}. The spans of another thread are
-- below a node with the thread's name.
local function tree_of(session, number)
   local root = {0, 0, 0, {}}
   local nodes = {[0] = root}
   local roots = {[0] = root}
   for thread, name in ipairs(session:threads()) do
      roots[thread] = {number(name), 0, 0, {}}
      root[4][name] = roots[thread]
   end
   local event = {}
   for i = 1, session:state().events do
      session:event(i, event)
      local duration = event.kind == "kernel" and event.device_time or event.duration
      local n = number(event.kind == "step" and "ProfilerStep*" or event.name)
      local outer = event.parent > 0 and nodes[event.parent] or roots[event.thread]
      local node = outer[4][n]
      if not node then
         node = {n, 0, 0, {}}
         outer[4][n] = node
      end
      node[2], node[3] = node[2] + duration - event.inside, node[3] + 1
      nodes[i] = node
   end
   return root
end

-- Writes a tree of spans as JSON: [number of the name, ns in the span itself, calls, [children]].
local function put_tree(put, node)
   put(("[%d,%d,%d,["):format(node[1], node[2], node[3]))
   local children = {}
   for _, child in pairs(node[4]) do children[#children + 1] = child end
   table.sort(children, function(a, b) return a[1] < b[1] end)
   for i, child in ipairs(children) do
      if i > 1 then put "," end
      put_tree(put, child)
   end
   put "]]"
end

local function put_flame(put, session)
   local list, number = names()
   local root = tree_of(session, number)
   put "<script>flame(\n"
   put(script(json.as_array(list)))
   put ","
   put_tree(put, root)
   put ");</script>\n"
end

-- Returns a duration. A timeline shows the events that last at least this long, which are the MOST
-- longest ones.
local function threshold(session, n)
   if n <= MOST then return 0 end
   local took, event = {}, {}
   for i = 1, n do
      session:event(i, event)
      took[i] = event.kind == "kernel" and event.device_time or event.duration
   end
   table.sort(took, function(a, b) return a > b end)
   return took[MOST]
end

local kinds = {
   operator = 0, backward = 1, user = 2, module = 3, collector = 4, data = 5, optimizer = 6,
   step = 7, kernel = 9,
}

-- Returns a table from each thread to the number of the rows in the timeline that belong to the
-- threads before it. Thread 0 is the first thread.
local function rows_above(session, n)
   local depths, most, event = {}, {}, {}
   for i = 1, n do
      session:event(i, event)
      local parent, thread = event.parent, event.thread
      depths[i] = parent > 0 and depths[parent] + 1 or 0
      most[thread] = math.max(most[thread] or 0, depths[i] + 1)
   end
   local above = {[0] = 0}
   for thread = 1, #session:threads() do
      above[thread] = above[thread - 1] + (most[thread - 1] or 0) + 1
   end
   return above
end

-- Writes each event as numbers: its begin and its duration in ns, its row, the number of its name,
-- and the number of its kind. Events of devices have the kind 8.
local function put_timeline(put, session)
   local state, event = session:state(), {}
   local n = state.events
   local least, depths, shown = threshold(session, n), {}, 0
   local list, number = names()
   local above = rows_above(session, n)
   put "<script>timeline(["
   for i = 1, n do
      session:event(i, event)
      local kind, name, parent = event.kind, event.name, event.parent
      local begin, took = event.begin, event.duration
      local device_begin, device_time = event.device_begin, event.device_time
      depths[i] = parent > 0 and depths[parent] + 1 or 0
      local kernel = kind == "kernel"
      if kernel then begin, took = device_begin, device_time end
      if took >= least and shown < MOST then
         put(("%s%d,%d,%d,%d,%d"):format(shown > 0 and "," or "", begin, took,
            above[event.thread] + depths[i], number(name), kinds[kind]))
         shown = shown + 1
         if device_begin >= 0 and not kernel then
            put((",%d,%d,0,%d,8"):format(device_begin, device_time, number(name)))
         end
      end
   end
   put "],"
   put(script(json.as_array(list)))
   put((",%d);</script>\n"):format(state.duration))
   if shown < n then
      put(("<p>%d of %d events are shown, the longest ones.</p>\n"):format(shown, n))
   end
end

local function put_memory(put, session)
   local rows = {}
   for i, point in ipairs(timeline.points(session, 2000)) do
      rows[i] = ("[%d,%s]"):format(point.time, table.concat(point.bytes, ","))
   end
   put(("<script>memory(%s,[%s],%d);</script>\n"):format(script(timeline.categories),
      table.concat(rows, ","), session:state().duration))
   put("<p>Bytes of tensors that were made or used while it was recorded. What an operator made "
      .. "and nobody saved is temporary; what allocators keep for later is cached.</p>\n")
end

local function write(who, path, title, sections)
   text.write_file(who, path, function(put)
      put(page.head:gsub("%$TITLE", (escape(title):gsub("%%", "%%%%"))))
      for _, section in ipairs(sections) do
         put(("<h2>%s</h2>\n"):format(section[1]))
         section[2](put)
      end
      put "</body></html>\n"
   end)
end

local function pre(value)
   return function(put) put(("<pre>%s</pre>\n"):format(escape(value))) end
end

local function bind(fn, session) return function(put) fn(put, session) end end

--- Writes a page with only the flame graph.
function M.write_flame(session, path)
   write("export_flame_graph", path, "tlua flame graph",
      {{"Flame graph", bind(put_flame, session)}})
end

--- Writes a page with only the memory timeline.
function M.write_memory(session, path)
   write("export_memory_timeline", path, "tlua memory", {{"Memory", bind(put_memory, session)}})
end

--- Writes a page with every section that the profile has data for.
function M.write(prof, session, path, title)
   local sections = {
      {"What is it waiting for?", pre(prof:summary())},
      {"Flame graph", bind(put_flame, session)},
      {"Timeline", bind(put_timeline, session)},
   }
   if prof.recorded.memory then sections[#sections + 1] = {"Memory", bind(put_memory, session)} end
   sections[#sections + 1] = {"Operators", pre(prof:key_averages():table {row_limit = 50})}
   if prof.with_modules then
      sections[#sections + 1] = {"Modules", pre(prof:module_averages():table {row_limit = 50})}
   end
   write("export_html", path, "tlua profile" .. (title and ": " .. title or ""), sections)
end

return M
