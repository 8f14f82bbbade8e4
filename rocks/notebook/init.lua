-- init.lua - torch.notebook: shows rich output in Jupyter notebooks, runs notebooks without
-- Jupyter, and registers the kernel with Jupyter.
--
--    display(torch.rand(3, 64, 64))            -- an image
--    display_html "<b>done</b>"
--
-- In a notebook, `display`, `display_html` and the like are globals.

local torch = require "tlua"
local args = require "tlua.args"
local class = require "tlua.class"

local M = {}

-- Returns the session of the notebook whose cell is running. Returns nil outside of a notebook.
local function session()
   local module = package.loaded["tlua.notebook.session"]
   return module and module.current
end

--- An output of a notebook, which can be replaced later.
---
---     local handle = torch.notebook.display "begun" -- a script prints it
---     handle:update "ended"
---     print(torch.type(handle))
---     --> notebook.Handle
---@class notebook.Handle
local Handle = class.class("notebook.Handle")

-- Shows a MIME bundle, a table that maps MIME types to texts. With `again`, it replaces the output
-- with this id. Outside a notebook, the bundle's plain text is printed.
local function show(bundle, id, again)
   local now = session()
   if now then
      now:display(bundle, id, again)
   else
      _G.print(bundle["text/plain"] or select(2, next(bundle)))
   end
end

-- Returns the MIME bundle of a value. Meanwhile the library's own metatables are in place, because
-- cells may have removed methods of strings.
local function bundle_of(value)
   local guard = require "tlua.notebook.guard"
   local changed = guard.leave()
   local ok, bundle = pcall(require("tlua.notebook.mime").bundle, value)
   if changed then guard.enter() end
   if not ok then error(bundle, 0) end
   return bundle
end

--- Replaces the value that this output shows by another value.
---@param value any  the value to show instead
---@return notebook.Handle self
function Handle:update(value)
   show(bundle_of(value), self.id, true)
   return self
end

--- Shows a value. Tensors of one or two dimensions are shown as tables, tensors that are images as
--- images, figures of torch.utils.plot as drawings and models as trees. If a value's metatable has
--- the function __mime, it returns a table from MIME types to texts, one of which the notebook
--- shows. Any other value is shown as print shows it. Outside a notebook, the value is printed.
---@param value any
---@return notebook.Handle handle  its update(value) replaces the output
function M.display(value)
   local handle = Handle()
   handle.id = require("tlua.notebook.messages").new_id()
   show(bundle_of(value), handle.id)
   return handle
end

local function check_text(name, text)
   if type(text) ~= "string" then args.refuse("notebook." .. name, "text", "a string", text) end
   return require("tlua.notebook.messages").clean(text)
end

--- Shows a text as HTML. Outside a notebook, it prints the text.
---@param text string
function M.display_html(text)
   text = check_text("display_html", text)
   show {["text/html"] = text, ["text/plain"] = text}
end

--- Shows a text as Markdown. Outside a notebook, it prints the text.
---@param text string
function M.display_markdown(text)
   text = check_text("display_markdown", text)
   show {["text/markdown"] = text, ["text/plain"] = text}
end

--- Shows an SVG document. Outside a notebook, it prints "<an SVG drawing>".
---@param text string
function M.display_svg(text)
   text = check_text("display_svg", text)
   show {["image/svg+xml"] = text, ["text/plain"] = "<an SVG drawing>"}
end

--- Shows a tensor as an image: grey or coloured, or several images in a grid. Outside a notebook,
--- it prints the image in the terminal.
---@param image Tensor  (H, W), (C, H, W), (N, H, W) or (N, C, H, W) with 1 or 3 channels
function M.display_image(image)
   if not torch.is_tensor(image) then
      args.refuse("notebook.display_image", "image", "a tensor", image)
   end
   if image:dim() < 2 then
      args.refuse("notebook.display_image", "image",
         "(H, W), (C, H, W), (N, H, W) or (N, C, H, W)", image)
   end
   if session() then
      local png = require "tlua.io.png"
      show {["image/png"] = png.base64(require("tlua.notebook.mime").image(image)),
         ["text/plain"] = "<an image>"}
   else
      _G.print(torch.utils.plot.image(image))
   end
end

local take_run = args.signature [[notebook.run(path: string, output: string?,
   allow_errors: boolean = false, quiet: boolean = true)]]

--- Runs the cells of a notebook (an .ipynb file) in this interpreter, and writes their outputs to
--- the file. It stops at the first error, unless `allow_errors` is set. The outputs up to that
--- error are written.
---@param path string
---@param options? {output: string, allow_errors: boolean, quiet: boolean}  output: the path to
--- write to, `path` by default, "" for none; quiet: if true, no line is printed for each cell
---@return table notebook  the document with the outputs
---@return string? failure  the message of the first error
function M.run(...)
   local a = take_run(...)
   return require("tlua.notebook.document").run(a.path, a)
end

local take_install = args.signature [[notebook.install(name: string = 'tlua', prefix: string?,
   display_name: string = 'Lua (tlua)')]]

--- Registers the kernel with Jupyter by writing kernels/NAME/kernel.json. Without a prefix, it is
--- registered for the current user.
---@param options? {name: string, prefix: string, display_name: string}  prefix: the folder in which
--- Jupyter is installed, such as a virtual environment
---@return string folder
function M.install(...)
   local a = take_install(...)
   return require("tlua.notebook.kernelspec").install(a.name, a.prefix, a.display_name)
end

-- Defines the global functions of a notebook. `ask` reads a line from the user. If it is nil,
-- io.read raises an error. Returns a function that restores the standard libraries.
function M._open(ask)
   for _, name in ipairs {"display", "display_html", "display_markdown", "display_svg",
      "display_image"} do
      rawset(_G, name, M[name])
   end
   return require("tlua.notebook.input").open(ask)
end

return M
