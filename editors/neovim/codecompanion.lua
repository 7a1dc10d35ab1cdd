-- Hermes as an adapter of CodeCompanion.nvim: `:CodeCompanionChat adapter=hermes`.
local helpers = require("codecompanion.adapters.acp.helpers")

require("codecompanion").setup({
  adapters = {
    acp = {
      hermes = function()
        return {
          name = "hermes",
          formatted_name = "Hermes",
          type = "acp",
          roles = { llm = "assistant", user = "user" },
          opts = { vision = true },
          commands = { default = { "/path/to/hermes-editor" } },
          defaults = { mcpServers = {}, timeout = 20000 },
          parameters = {
            protocolVersion = 1,
            clientCapabilities = { fs = { readTextFile = true, writeTextFile = true } },
            clientInfo = { name = "CodeCompanion.nvim", version = "1.0.0" },
          },
          handlers = {
            setup = function() return true end,
            -- Hermes says itself when a key is missing.
            auth = function() return true end,
            form_messages = helpers.form_messages,
            on_exit = function() end,
          },
        }
      end,
    },
  },
  interactions = { chat = { adapter = "hermes" } },
})
