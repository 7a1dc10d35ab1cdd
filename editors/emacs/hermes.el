;;; hermes.el --- Hermes in agent-shell -*- lexical-binding: t; -*-

;;; Commentary:
;; Adds Hermes to the agents of agent-shell: M-x hermes-start.

;;; Code:

(require 'acp)
(require 'agent-shell)

(defcustom hermes-program "/path/to/hermes-editor"
  "The program that serves Hermes."
  :type 'file
  :group 'agent-shell)

(defun hermes-agent-config ()
  "Return the agent-shell configuration of Hermes."
  (agent-shell-make-agent-config
   :identifier 'hermes
   :mode-line-name "Hermes"
   :buffer-name "Hermes"
   :shell-prompt "Hermes> "
   :shell-prompt-regexp "Hermes> "
   :client-maker (lambda (buffer)
                   (acp-make-client :command hermes-program
                                    :command-params nil
                                    :context-buffer buffer))))

(defun hermes-start ()
  "Start Hermes in the current project."
  (interactive)
  (agent-shell-start :config (hermes-agent-config)))

(provide 'hermes)
;;; hermes.el ends here
